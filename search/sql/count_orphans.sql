-- Rows of a derived table with a foreign owner, or of deleted items.
SELECT count(*)
FROM {table} AS r
INNER JOIN search_source AS s ON s.id = r.source_id
LEFT JOIN search_sourceindex AS i ON i.source_id = r.source_id AND i.space_id = %(space)s
WHERE
    r.owner_id <> s.owner_id
    OR (r.{number} >= s.item_count AND i.indexed_version = s.version)
