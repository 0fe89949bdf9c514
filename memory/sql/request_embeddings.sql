-- Mark the records of some messages as pending, unless they are embedded in their current form or being embedded.
INSERT INTO memory_messageembedding AS r
    (owner_id, conversation_id, space_id, message_id, status, error, attempts, token_count, role, "position",
     content_hash, created_at, updated_at)
SELECT %(owner)s, m.conversation_id, %(space)s, m.id, 'pending', '', 0, 0, m.role, m."position", m.content_hash, now(), now()
FROM conversations_message AS m
WHERE
    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s AND m.id = ANY(%(messages)s)
    AND (m.is_real_user OR m.role = 'assistant')
ON CONFLICT (message_id, space_id, owner_id) DO UPDATE SET
    status = 'pending',
    error = '',
    attempts = 0,
    "position" = EXCLUDED."position",
    content_hash = EXCLUDED.content_hash,
    updated_at = EXCLUDED.updated_at
WHERE r.status IN ('pending', 'failed') OR r.content_hash <> EXCLUDED.content_hash
