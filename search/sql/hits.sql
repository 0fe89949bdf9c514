-- What a page of results shows of the given turns of one owner.
SELECT
    d.conversation_id, d.turn_number, d.message_id, d.question, d.created_at, c.title, c.agent, c.project
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS t (conversation_id, turn_number)
INNER JOIN search_turndocument AS d USING (conversation_id, turn_number)
INNER JOIN conversations_conversation AS c ON c.id = d.conversation_id
WHERE d.owner_id = %(owner)s
