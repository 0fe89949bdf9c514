-- Set the turn numbers of the given messages of one conversation.
UPDATE conversations_message AS m
SET turn_number = v.turn_number
FROM unnest(%(messages)s::bigint[], %(turns)s::int[]) AS v (id, turn_number)
WHERE m.id = v.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
