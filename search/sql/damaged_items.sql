-- Sources that count as indexed but have items whose vector in the active space is missing, stale or failed.
SELECT d.source_id, min(d.number), count(*)
FROM search_item AS d
INNER JOIN search_sourceindex AS i
    ON i.source_id = d.source_id AND i.space_id = %(space)s AND i.error = ''
INNER JOIN search_source AS s ON s.id = d.source_id AND s.version = i.indexed_version
LEFT JOIN search_itemembedding AS e
    ON e.source_id = d.source_id AND e.space_id = %(space)s AND e.item_number = d.number AND e.chunk_number = 0
WHERE
    CASE
        WHEN d.error <> '' THEN 'failed'
        WHEN e.id IS NULL THEN 'missing'
        WHEN e.content_hash <> d.content_hash THEN 'stale'
    END = ANY(%(defects)s)
    AND s.kind <> ALL(%(without_vectors)s::text[])
    AND (%(owner)s::bigint IS NULL OR s.owner_id = %(owner)s)
    AND (%(source)s::bigint IS NULL OR s.id = %(source)s)
    AND (%(since)s::timestamptz IS NULL OR s.updated_at >= %(since)s)
GROUP BY d.source_id
ORDER BY d.source_id
LIMIT %(limit)s
