-- How many messages of one conversation are embedded in their current form, pending, and failed.
SELECT
    count(*) FILTER (WHERE r.status = 'completed'),
    count(*) FILTER (WHERE r.status IS DISTINCT FROM 'completed' AND r.status IS DISTINCT FROM 'failed'),
    count(*) FILTER (WHERE r.status = 'failed'),
    coalesce(sum(r.token_count) FILTER (WHERE r.status = 'completed'), 0)
FROM conversations_message AS m
LEFT JOIN memory_messageembedding AS r
    ON r.message_id = m.id AND r.owner_id = m.owner_id AND r.space_id = %(space)s AND r.content_hash = m.content_hash
WHERE
    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
    AND (m.is_real_user OR m.role = 'assistant')
