-- Where the active space is behind, let a space that is about to replace it have every item compared, too: what both
-- share, the lexical documents, is behind with it.
UPDATE search_sourceindex AS i
SET indexed_version = least(i.indexed_version, coalesce(active.indexed_version, 0)), dirty_from = 0
FROM search_source AS s
LEFT JOIN search_sourceindex AS active ON active.source_id = s.id AND active.space_id = %(active)s
WHERE
    i.space_id = %(space)s AND s.id = i.source_id
    AND (active.id IS NULL OR active.indexed_version < s.version)
