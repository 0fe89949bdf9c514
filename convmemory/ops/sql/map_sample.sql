-- A repeatable sample of one owner's turn vectors in one space, and how many turns there are.
WITH all_turns AS (
    SELECT id FROM search_turnembedding
    WHERE owner_id = %(owner)s AND space_id = %(space)s AND chunk_number = 0
), chosen AS (
    SELECT id FROM all_turns ORDER BY hashint8(id), id LIMIT %(limit)s
)
SELECT e.conversation_id, e.turn_number, e.embedding::real[], (SELECT count(*) FROM all_turns)
FROM chosen
INNER JOIN search_turnembedding AS e ON e.id = chosen.id
ORDER BY e.id
