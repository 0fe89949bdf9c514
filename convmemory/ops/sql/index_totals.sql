-- How many turns of everybody are there, wait, and were given up or failed.
WITH state AS (
    SELECT
        c.turn_count,
        CASE
            WHEN c.turns_version = 0 THEN 0
            WHEN i.conversation_id IS NULL THEN c.turn_count
            WHEN i.indexed_version = c.turns_version AND i.space_id = %(space)s AND i.error = '' THEN 0
            WHEN i.space_id = %(space)s AND i.dirty_from IS NOT NULL THEN greatest(c.turn_count - i.dirty_from, 0)
            ELSE c.turn_count
        END AS behind,
        coalesce(i.error <> '' AND i.attempts >= %(max_attempts)s, FALSE) AS given_up
    FROM conversations_conversation AS c
    LEFT JOIN search_conversationindex AS i ON i.conversation_id = c.id
)
SELECT
    coalesce(sum(turn_count), 0),
    coalesce(sum(behind) FILTER (WHERE NOT given_up), 0),
    coalesce(sum(behind) FILTER (WHERE given_up), 0)
    + (SELECT count(*) FROM search_turndocument AS d WHERE d.error <> '')
FROM state
