-- Conversations that count as indexed but hold another number of passages in a space than was stored, or whose blocks of
-- signs are not their owner's or hold others than there are.
WITH current AS (
    SELECT i.conversation_id, c.owner_id, i.passages
    FROM search_conversationindex AS i
    INNER JOIN conversations_conversation AS c ON c.id = i.conversation_id AND c.turns_version = i.indexed_version
    WHERE i.space_id = %(space)s
),
stored AS (
    SELECT conversation_id, turn_number / %(turns)s AS number, count(*) AS passages
    FROM memory_passage
    WHERE space_id = %(space)s
    GROUP BY conversation_id, turn_number / %(turns)s
),
packed AS (
    SELECT conversation_id, owner_id, number, octet_length(places) / %(place_bytes)s AS passages
    FROM memory_signblock
    WHERE space_id = %(space)s
)
SELECT current.conversation_id
FROM current
LEFT JOIN (
    SELECT conversation_id, sum(passages) AS passages FROM stored GROUP BY conversation_id
) AS s ON s.conversation_id = current.conversation_id
WHERE current.passages <> coalesce(s.passages, 0)
UNION
SELECT current.conversation_id
FROM stored FULL JOIN packed USING (conversation_id, number)
INNER JOIN current USING (conversation_id)
WHERE stored.passages IS DISTINCT FROM packed.passages OR packed.owner_id <> current.owner_id
