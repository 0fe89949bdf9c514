-- The first passage of the question and the first of the answer of some turns of one owner.
SELECT DISTINCT ON (e.conversation_id, e.turn_number, e.kind)
    e.conversation_id, e.turn_number, e.kind, e.message_id, e.part_index, e."start", e."end",
    substr(m.parts -> e.part_index::int ->> 'text', e."start" + 1, e."end" - e."start"), m.name, m.position
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS t (conversation_id, turn_number)
INNER JOIN memory_passage AS e USING (conversation_id, turn_number)
INNER JOIN conversations_message AS m ON m.id = e.message_id AND m.owner_id = e.owner_id
WHERE e.owner_id = %(owner)s AND e.kind = ANY(%(kinds)s)
ORDER BY e.conversation_id, e.turn_number, e.kind, m.position, e.part_index, e."start"
