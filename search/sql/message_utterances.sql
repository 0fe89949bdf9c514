-- Who said some messages, who said the next one of each, and whether that one belongs to another turn. The place of the
-- next one is computed before it is looked up: a sum in the condition would keep it from its index under a policy.
WITH m AS MATERIALIZED (
    SELECT id, conversation_id, "position", "position" + 1 AS next_position, name, turn_number, owner_id
    FROM conversations_message
    WHERE id = ANY(%(messages)s::bigint[]) AND owner_id = %(owner)s
)

SELECT
    m.id,
    m."position",
    m.name,
    coalesce(n.name, ''),
    coalesce(n.turn_number <> m.turn_number, FALSE)
FROM m
LEFT JOIN conversations_message AS n
    ON n.conversation_id = m.conversation_id AND n."position" = m.next_position AND n.owner_id = m.owner_id
