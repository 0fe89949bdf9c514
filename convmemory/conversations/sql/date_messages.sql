-- Date the undated messages of one conversation: by the first event of their turn, else by the nearest dated message,
-- else by when the conversation began.
WITH first_event AS (
    SELECT e.turn_number, min(e.created_at) AS at
    FROM conversations_event AS e
    WHERE e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.turn_number IS NOT NULL
    GROUP BY e.turn_number
),
placed AS (
    SELECT
        m.id, m."position", m.turn_number, m.created_at,
        max(m."position") FILTER (WHERE m.created_at IS NOT NULL) OVER (ORDER BY m."position") AS before,
        min(m."position") FILTER (WHERE m.created_at IS NOT NULL) OVER (ORDER BY m."position" DESC) AS after
    FROM conversations_message AS m
    WHERE m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
),
dated AS (
    SELECT p.id, coalesce(f.at, near.created_at, %(begun)s) AS at
    FROM placed AS p
    LEFT JOIN first_event AS f ON f.turn_number = p.turn_number
    LEFT JOIN placed AS near ON near."position" = CASE
        WHEN p.after - p."position" < p."position" - p.before THEN p.after
        ELSE coalesce(p.before, p.after)
    END
    WHERE p.created_at IS NULL
)
UPDATE conversations_message AS m
SET created_at = dated.at
FROM dated
WHERE m.id = dated.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
