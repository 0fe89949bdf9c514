-- Who said some messages, who said the next one of each, and whether that one belongs to another turn.
SELECT
    m.id,
    m."position",
    m.name,
    coalesce(n.name, ''),
    coalesce(n.turn_number <> m.turn_number, FALSE)
FROM conversations_message AS m
LEFT JOIN conversations_message AS n
    ON n.conversation_id = m.conversation_id AND n."position" = m."position" + 1 AND n.owner_id = m.owner_id
WHERE m.id = ANY(%(messages)s::bigint[]) AND m.owner_id = %(owner)s
