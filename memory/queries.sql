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

-- name: recall_passages
-- Some passages, by their ids, with their token vectors, of messages at some positions that no context has.
SELECT e.id, e.element_id, e.part_index, e."start", e."end", e.tokens, e.asks
FROM search_passage AS e
INNER JOIN conversations_message AS m ON m.id = e.element_id AND m.owner_id = e.owner_id
WHERE
    e.id = ANY(%(ids)s::bigint[]) AND e.owner_id = %(owner)s AND e.space_id = %(space)s
    AND m.id <> ALL(%(alive)s) AND m."position" BETWEEN %(first_position)s AND %(last_position)s

-- name: openings
-- For each of some messages of one owner, the first passage of the question before it and of the answer that it is in.
-- A question's answer is the last one after it that says more than "Done."; what a tool put out is in the answer that
-- called it. What was said outside of a turn has neither.
SELECT
    t.message_id, found.role, found.element_id, found.part_index, found."start", found."end",
    substr(found.parts -> found.part_index::int ->> 'text', found."start" + 1, found."end" - found."start"),
    found.name, found."position"
FROM unnest(%(messages)s::bigint[]) AS t (message_id)
INNER JOIN conversations_message AS m
    ON m.id = t.message_id AND m.owner_id = %(owner)s AND m.turn_number IS NOT NULL
INNER JOIN LATERAL (
    SELECT p.source_id, p.item_number FROM search_passage AS p
    WHERE p.element_id = m.id AND p.owner_id = m.owner_id
    LIMIT 1
) AS home ON TRUE
CROSS JOIN LATERAL (
    (
        SELECT 'user' AS role, e.element_id, e.part_index, e."start", e."end", q.parts, q.name, q."position"
        FROM search_passage AS e
        INNER JOIN conversations_message AS q ON q.id = e.element_id AND q.owner_id = e.owner_id
        WHERE
            e.source_id = home.source_id AND e.item_number = home.item_number AND e.owner_id = m.owner_id
            AND q.is_real_user AND e.kind IN (%(question)s, %(outside)s) AND q."position" <= m."position"
        ORDER BY q."position" DESC, e.part_index, e."start"
        LIMIT 1
    )
    UNION ALL
    (
        SELECT 'assistant' AS role, e.element_id, e.part_index, e."start", e."end", a.parts, a.name, a."position"
        FROM search_passage AS e
        INNER JOIN conversations_message AS a ON a.id = e.element_id AND a.owner_id = e.owner_id
        WHERE
            e.source_id = home.source_id AND e.item_number = home.item_number AND e.owner_id = m.owner_id
            AND a.role = 'assistant' AND e.kind IN (%(answer)s, %(outside)s) AND (a."position" > m."position" OR NOT m.is_real_user)
        ORDER BY
            (a."position" > m."position") = m.is_real_user DESC,
            m.is_real_user AND max(e."end") OVER (PARTITION BY e.element_id) < %(short)s,
            CASE WHEN m.is_real_user THEN -a."position" ELSE abs(a."position" - m."position") END, e.part_index,
            e."start"
        LIMIT 1
    )
) AS found

-- name: earlier_openings
-- The first passages of the question and of the answer of the turn before those of some messages of one owner.
SELECT DISTINCT ON (t.message_id, e.kind)
    t.message_id, b.role, e.element_id, e.part_index, e."start", e."end",
    substr(b.parts -> e.part_index::int ->> 'text', e."start" + 1, e."end" - e."start"), b.name, b."position"
FROM unnest(%(messages)s::bigint[]) AS t (message_id)
INNER JOIN conversations_message AS m
    ON m.id = t.message_id AND m.owner_id = %(owner)s AND m.turn_number > 0
INNER JOIN conversations_message AS b
    ON b.conversation_id = m.conversation_id AND b.owner_id = m.owner_id AND b.turn_number = m.turn_number - 1
INNER JOIN search_passage AS e
    ON e.element_id = b.id AND e.owner_id = b.owner_id AND e.kind IN (%(question)s, %(answer)s)
ORDER BY t.message_id, e.kind, b."position", e.part_index, e."start"

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
