-- Insert or replace the status records of some messages of one conversation.
INSERT INTO memory_messageembedding AS r
    (owner_id, conversation_id, space_id, message_id, status, error, attempts, token_count, role, "position",
     content_hash, created_at, updated_at)
SELECT
    %(owner)s, %(conversation)s, %(space)s, m.id, CASE WHEN t.error = '' THEN 'completed' ELSE 'failed' END, t.error,
    (t.error <> '')::int, t.token_count, m.role, m."position", t.content_hash, now(), now()
FROM unnest(%(messages)s::bigint[], %(errors)s::text[], %(token_counts)s::int[], %(hashes)s::bytea[])
    AS t (message_id, error, token_count, content_hash)
INNER JOIN conversations_message AS m ON m.id = t.message_id AND m.owner_id = %(owner)s
WHERE m.is_real_user OR m.role = 'assistant'
ON CONFLICT (message_id, space_id, owner_id) DO UPDATE SET
    status = EXCLUDED.status,
    error = EXCLUDED.error,
    attempts = CASE
        WHEN EXCLUDED.status = 'failed' AND r.content_hash = EXCLUDED.content_hash THEN greatest(r.attempts, 1)
        ELSE EXCLUDED.attempts
    END,
    token_count = EXCLUDED.token_count,
    role = EXCLUDED.role,
    "position" = EXCLUDED."position",
    content_hash = EXCLUDED.content_hash,
    updated_at = EXCLUDED.updated_at
WHERE NOT (%(keep_completed)s AND r.status = 'completed' AND r.content_hash = EXCLUDED.content_hash)
