-- name: alive_turns
-- The turns of one owner of which every message is among these.
SELECT m.conversation_id, m.turn_number
FROM conversations_message AS m
WHERE
    m.owner_id = %(owner)s AND m.turn_number IS NOT NULL
    AND m.conversation_id IN (
        SELECT a.conversation_id FROM conversations_message AS a
        WHERE a.owner_id = %(owner)s AND a.id = ANY(%(messages)s)
    )
GROUP BY m.conversation_id, m.turn_number
HAVING bool_and(m.id = ANY(%(messages)s))

-- name: request_embeddings
-- Mark the records of some messages as pending, unless they are embedded in their current form or being embedded.
INSERT INTO memory_messageembedding AS r
    (owner_id, space_id, message_id, status, error, attempts, token_count, content_hash, created_at, updated_at)
SELECT
    %(owner)s, %(space)s, m.id, 'pending', '', 0, 0, substring(m.content_hash FROM 1 FOR %(hash_bytes)s), now(), now()
FROM conversations_message AS m
WHERE
    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s AND m.id = ANY(%(messages)s)
    AND (m.is_real_user OR m.role = 'assistant')
ON CONFLICT (message_id, space_id, owner_id) DO UPDATE SET
    status = 'pending',
    error = '',
    attempts = 0,
    content_hash = EXCLUDED.content_hash,
    updated_at = EXCLUDED.updated_at
WHERE r.status IN ('pending', 'failed') OR r.content_hash <> EXCLUDED.content_hash

-- name: texts_of_places
-- The text at each of some places in messages of one owner, in the order that is given; null if a message is gone.
SELECT substr(m.parts -> t.part ->> 'text', t.start + 1, t.size)
FROM unnest(%(messages)s::bigint[], %(parts)s::int[], %(starts)s::int[], %(sizes)s::int[])
    WITH ORDINALITY AS t (message_id, part, start, size, place)
LEFT JOIN conversations_message AS m ON m.id = t.message_id AND m.owner_id = %(owner)s
ORDER BY t.place

-- name: conversation_stats
-- How many messages of one conversation are embedded in their current form, pending, and failed.
SELECT
    count(*) FILTER (WHERE r.status = 'completed'),
    count(*) FILTER (WHERE r.status IS DISTINCT FROM 'completed' AND r.status IS DISTINCT FROM 'failed'),
    count(*) FILTER (WHERE r.status = 'failed'),
    coalesce(sum(r.token_count) FILTER (WHERE r.status = 'completed'), 0)
FROM conversations_message AS m
LEFT JOIN memory_messageembedding AS r
    ON r.message_id = m.id AND r.owner_id = m.owner_id AND r.space_id = %(space)s
    AND r.content_hash = substring(m.content_hash FROM 1 FOR %(hash_bytes)s)
WHERE
    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
    AND (m.is_real_user OR m.role = 'assistant')

-- name: record_outcomes
-- Insert or replace the status records of some messages of one owner.
INSERT INTO memory_messageembedding AS r
    (owner_id, space_id, message_id, status, error, attempts, token_count, content_hash, created_at, updated_at)
SELECT
    %(owner)s, %(space)s, m.id, CASE WHEN t.error = '' THEN 'completed' ELSE 'failed' END, t.error,
    (t.error <> '')::int, t.token_count, t.content_hash, now(), now()
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
    content_hash = EXCLUDED.content_hash,
    updated_at = EXCLUDED.updated_at
WHERE NOT (%(keep_completed)s AND r.status = 'completed' AND r.content_hash = EXCLUDED.content_hash)
