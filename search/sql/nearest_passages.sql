-- The norm of a passage's vector, and its nearest neighbours among its owner's passages in its space.
WITH given AS (
    SELECT id, owner_id, space_id, embedding FROM memory_passage WHERE id = %(id)s
), others AS MATERIALIZED (
    SELECT e.id, e.conversation_id, e.turn_number, e.kind, 1 - (e.embedding <=> given.embedding) AS similarity
    FROM memory_passage AS e, given
    WHERE e.owner_id = given.owner_id AND e.space_id = given.space_id AND e.id <> given.id
    LIMIT %(scanned)s
)
SELECT l2_norm(given.embedding), o.id, o.conversation_id, o.turn_number, o.kind, o.similarity
FROM given
LEFT JOIN others AS o ON TRUE
ORDER BY o.similarity DESC NULLS LAST, o.id
LIMIT %(limit)s
