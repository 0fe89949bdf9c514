-- Set the positions of the given messages of one conversation; the unique constraint is checked at commit.
UPDATE conversations_message AS m
SET position = v.position
FROM unnest(%(messages)s::bigint[], %(positions)s::int[]) AS v (id, position)
WHERE m.id = v.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
