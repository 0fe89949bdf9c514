-- The owner's conversations that do not pass the filters.
SELECT array_agg(e.conversation_id)
FROM (SELECT id AS conversation_id FROM conversations_conversation WHERE owner_id = %(owner)s) AS e
WHERE NOT ({filters})
