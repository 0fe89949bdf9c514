-- How many turns, words and passages each of the owner's conversations holds.
SELECT
    array_agg(c.id),
    array_agg(c.turn_count),
    array_agg(coalesce(i.spoken_length, 0)),
    array_agg(coalesce(i.passages, 0))
FROM conversations_conversation AS c
LEFT JOIN search_conversationindex AS i ON i.conversation_id = c.id
WHERE c.owner_id = %(owner)s AND c.turn_count > 0
