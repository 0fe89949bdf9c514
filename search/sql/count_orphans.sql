-- Rows of a derived table with a foreign owner, or of turns that are gone.
SELECT count(*)
FROM {table} AS r
INNER JOIN conversations_conversation AS c ON c.id = r.conversation_id
LEFT JOIN search_conversationindex AS i ON i.conversation_id = r.conversation_id
WHERE
    r.owner_id <> c.owner_id
    OR (r.turn_number >= c.turn_count AND i.indexed_version = c.turns_version)
