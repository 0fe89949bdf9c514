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
