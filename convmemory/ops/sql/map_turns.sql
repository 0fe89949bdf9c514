-- Question and time of one owner's turns by (conversation, turn); what is gone has no row.
SELECT d.conversation_id, d.turn_number, left(d.question, 100), d.created_at
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS wanted (conversation_id, turn_number)
INNER JOIN search_turndocument AS d USING (conversation_id, turn_number)
WHERE d.owner_id = %(owner)s
