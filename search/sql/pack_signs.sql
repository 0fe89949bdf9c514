-- Pack the signs of a conversation's passages in one space, for some blocks of turns. How: memory/models.py, SignBlock.
INSERT INTO memory_signblock (owner_id, conversation_id, space_id, number, places, signs)
SELECT
    e.owner_id,
    e.conversation_id,
    e.space_id,
    e.turn_number / %(turns)s,
    string_agg(int8send(e.id) || int4send(e.turn_number) || int2send(e.kind), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(binary_quantize(e.embedding)) FROM 5), ''::bytea ORDER BY e.id)
FROM memory_passage AS e
WHERE
    e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.space_id = %(space)s
    AND e.turn_number BETWEEN %(first)s AND %(last)s AND e.turn_number / %(turns)s = ANY(%(numbers)s)
GROUP BY e.owner_id, e.conversation_id, e.space_id, e.turn_number / %(turns)s
