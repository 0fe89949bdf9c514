-- The bytes that messages of one owner count: their parts and source lines, and a fixed number a row.
SELECT coalesce(sum(%(row_bytes)s + octet_length(m.parts::text) + coalesce(octet_length(s.data), 0)), 0)
FROM conversations_message AS m
LEFT JOIN conversations_messagesource AS s ON s.message_id = m.id AND s.owner_id = m.owner_id
WHERE m.owner_id = %(owner)s AND m.id = ANY(%(messages)s)
