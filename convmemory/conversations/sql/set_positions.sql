-- Set the positions of the given messages; the unique constraint is checked at commit.
UPDATE conversations_message AS m
SET position = v.position
FROM unnest(%s::bigint[], %s::int[]) AS v (id, position)
WHERE m.id = v.id
