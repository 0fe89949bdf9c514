-- How many turns of one owner, or of everybody where the owner is null, there are, wait, were given up and failed.
WITH state AS (
    SELECT
        c.turn_count,
        c.message_count,
        coalesce(i.passages, 0) AS passages,
        CASE
            WHEN c.turns_version = 0 THEN 0
            WHEN i.conversation_id IS NULL THEN c.turn_count
            WHEN i.indexed_version = c.turns_version AND i.space_id = %(space)s AND i.error = '' THEN 0
            WHEN i.space_id = %(space)s AND i.dirty_from IS NOT NULL
                THEN greatest(c.turn_count - i.dirty_from, 0) + (c.turn_count = 0)::int
            ELSE c.turn_count
        END AS behind,
        coalesce(i.error <> '' AND i.attempts >= %(max_attempts)s, FALSE) AS given_up
    FROM conversations_conversation AS c
    LEFT JOIN search_conversationindex AS i ON i.conversation_id = c.id
    WHERE %(owner)s::bigint IS NULL OR c.owner_id = %(owner)s::bigint
)
SELECT
    count(*),
    coalesce(sum(turn_count), 0),
    coalesce(sum(message_count), 0),
    coalesce(sum(passages), 0),
    coalesce(sum(behind) FILTER (WHERE NOT given_up), 0),
    coalesce(sum(behind) FILTER (WHERE given_up), 0),
    (
        SELECT count(*) FROM search_turndocument AS d
        WHERE (%(owner)s::bigint IS NULL OR d.owner_id = %(owner)s::bigint) AND d.error <> ''
    )
FROM state
