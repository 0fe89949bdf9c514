-- Conversations that count as indexed but have turns whose vector in the active space is missing, stale or failed.
SELECT d.conversation_id, min(d.turn_number), count(*)
FROM search_turndocument AS d
INNER JOIN search_conversationindex AS i
    ON i.conversation_id = d.conversation_id AND i.space_id = %(space)s AND i.error = ''
INNER JOIN conversations_conversation AS c ON c.id = d.conversation_id AND c.turns_version = i.indexed_version
LEFT JOIN search_turnembedding AS e
    ON e.conversation_id = d.conversation_id AND e.space_id = %(space)s AND e.turn_number = d.turn_number
    AND e.chunk_number = 0
WHERE
    CASE
        WHEN d.error <> '' THEN 'failed'
        WHEN e.id IS NULL THEN 'missing'
        WHEN e.content_hash <> d.content_hash THEN 'stale'
    END = ANY(%(kinds)s)
    AND (%(owner)s::bigint IS NULL OR c.owner_id = %(owner)s)
    AND (%(conversation)s::bigint IS NULL OR c.id = %(conversation)s)
    AND (%(since)s::timestamptz IS NULL OR c.updated_at >= %(since)s)
GROUP BY d.conversation_id
ORDER BY d.conversation_id
LIMIT %(limit)s
