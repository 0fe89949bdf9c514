-- Delete rows of a derived table with a foreign owner, or of deleted items; token vectors are deleted with passages.
WITH orphans AS MATERIALIZED (
    SELECT r.id
    FROM {table} AS r
    INNER JOIN search_source AS s ON s.id = r.source_id
    LEFT JOIN search_sourceindex AS i ON i.source_id = r.source_id AND i.space_id = %(space)s
    WHERE
        r.owner_id <> s.owner_id
        OR (r.{number} >= s.item_count AND i.indexed_version = s.version)
),
tokens AS (
    DELETE FROM search_tokenvectors
    WHERE '{table}' = 'search_passage' AND passage_id IN (SELECT id FROM orphans)
)
DELETE FROM {table} WHERE id IN (SELECT id FROM orphans)
