-- The norm of one stored vector, and its nearest neighbours among its owner's vectors of that table in its space.
WITH given AS (
    SELECT id, owner_id, space_id, embedding FROM {table} WHERE id = %(id)s
), others AS MATERIALIZED (
    SELECT e.id, e.source_id, e.item_number, e.{number} AS number, 1 - (e.embedding <=> given.embedding) AS similarity
    FROM {table} AS e, given
    WHERE e.owner_id = given.owner_id AND e.space_id = given.space_id AND e.id <> given.id
    LIMIT %(scanned)s
)
SELECT l2_norm(given.embedding), o.id, s.kind, s.object_id, o.item_number, o.number, o.similarity
FROM given
LEFT JOIN others AS o ON TRUE
LEFT JOIN search_source AS s ON s.id = o.source_id
ORDER BY o.similarity DESC NULLS LAST, o.id
LIMIT %(limit)s
