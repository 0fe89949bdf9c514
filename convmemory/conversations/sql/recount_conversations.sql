-- Set the bytes that locked conversations count, from their messages and events; by how much each has changed.
UPDATE conversations_conversation AS c SET stored_bytes = counted.stored_bytes
FROM (
    SELECT
        o.id, coalesce(o.stored_bytes, 0) AS before,
        coalesce((
            SELECT sum(%(row_bytes)s + octet_length(m.parts::text) + coalesce(octet_length(s.data), 0))
            FROM conversations_message AS m
            LEFT JOIN conversations_messagesource AS s ON s.message_id = m.id AND s.owner_id = m.owner_id
            WHERE m.owner_id = o.owner_id AND m.conversation_id = o.id
        ), 0) + coalesce((
            SELECT sum(%(row_bytes)s + octet_length(e.payload::text))
            FROM conversations_event AS e
            WHERE e.owner_id = o.owner_id AND e.conversation_id = o.id
        ), 0) AS stored_bytes
    FROM conversations_conversation AS o
    WHERE o.id = ANY(%(conversations)s)
) AS counted
WHERE c.id = counted.id
RETURNING counted.stored_bytes - counted.before
