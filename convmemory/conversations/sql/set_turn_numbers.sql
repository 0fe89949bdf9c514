-- Set the turn numbers of the given messages.
UPDATE conversations_message AS m
SET turn_number = v.turn_number
FROM unnest(%s::bigint[], %s::int[]) AS v (id, turn_number)
WHERE m.id = v.id
