-- The first passage of the question and the first of the answer of some turns of one owner.
SELECT DISTINCT ON (t.conversation_id, t.turn_number, e.kind)
    t.conversation_id, t.turn_number, e.kind, e.element_id, e.part_index, e."start", e."end",
    substr(m.parts -> e.part_index::int ->> 'text', e."start" + 1, e."end" - e."start"), m.name, m.position
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS t (conversation_id, turn_number)
INNER JOIN search_source AS s
    ON s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.object_id = t.conversation_id
INNER JOIN search_passage AS e ON e.source_id = s.id AND e.item_number = t.turn_number
INNER JOIN conversations_message AS m ON m.id = e.element_id AND m.owner_id = e.owner_id
WHERE e.owner_id = %(owner)s AND e.kind = ANY(%(kinds)s)
ORDER BY t.conversation_id, t.turn_number, e.kind, m.position, e.part_index, e."start"
