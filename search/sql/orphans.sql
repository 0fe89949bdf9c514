-- The numbers of a derived table's rows with a foreign owner, or of items that are gone.
SELECT r.id
FROM {table} AS r
INNER JOIN search_source AS s ON s.id = r.source_id
LEFT JOIN search_sourceindex AS i ON i.source_id = r.source_id AND i.space_id = %(space)s
WHERE
    r.owner_id <> s.owner_id
    OR (r.{number} >= s.item_count AND i.indexed_version = s.version)
