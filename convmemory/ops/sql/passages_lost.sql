-- Conversations that count as indexed but hold another number of passages in a space than was stored, or not the signs
-- of all of them.
SELECT i.conversation_id
FROM search_conversationindex AS i
INNER JOIN conversations_conversation AS c ON c.id = i.conversation_id AND c.turns_version = i.indexed_version
LEFT JOIN (
    SELECT conversation_id, count(*) AS passages
    FROM memory_passage
    WHERE space_id = %(space)s
    GROUP BY conversation_id
) AS p ON p.conversation_id = i.conversation_id
LEFT JOIN (
    SELECT conversation_id, sum(octet_length(places)) / %(place_bytes)s AS passages
    FROM memory_signblock
    WHERE space_id = %(space)s
    GROUP BY conversation_id
) AS s ON s.conversation_id = i.conversation_id
WHERE
    i.space_id = %(space)s
    AND (i.passages <> coalesce(p.passages, 0) OR coalesce(s.passages, 0) < coalesce(p.passages, 0))
