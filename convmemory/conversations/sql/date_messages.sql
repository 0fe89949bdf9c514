-- Date the undated messages of one conversation: by the first event of their turn, else by the nearest dated message,
-- else by when the conversation began. A message shares `since` with the dated one before it, `until` with the one after.
WITH first_event AS (
    SELECT e.turn_number, min(e.created_at) AS at
    FROM conversations_event AS e
    WHERE e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.turn_number IS NOT NULL
    GROUP BY e.turn_number
),
counted AS (
    SELECT
        m.id, m."position", m.turn_number, m.created_at,
        count(m.created_at) OVER (ORDER BY m."position") AS since,
        count(m.created_at) OVER (ORDER BY m."position" DESC) AS until
    FROM conversations_message AS m
    WHERE m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
),
placed AS (
    SELECT
        c.id, c.turn_number, c.created_at,
        max(c.created_at) OVER (PARTITION BY c.since) AS before,
        max(c.created_at) OVER (PARTITION BY c.until) AS after,
        c."position" - max(c."position") FILTER (WHERE c.created_at IS NOT NULL) OVER (PARTITION BY c.since) AS back,
        max(c."position") FILTER (WHERE c.created_at IS NOT NULL) OVER (PARTITION BY c.until) - c."position" AS ahead
    FROM counted AS c
),
dated AS (
    SELECT
        p.id,
        coalesce(
            f.at, CASE WHEN p.ahead < p.back THEN p.after ELSE coalesce(p.before, p.after) END, %(begun)s
        ) AS at
    FROM placed AS p
    LEFT JOIN first_event AS f ON f.turn_number = p.turn_number
    WHERE p.created_at IS NULL
)
UPDATE conversations_message AS m
SET created_at = dated.at
FROM dated
WHERE m.id = dated.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
