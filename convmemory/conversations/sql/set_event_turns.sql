-- Set the turn numbers of the given lines of one conversation's event log, where they differ.
UPDATE conversations_event AS e
SET turn_number = v.turn_number
FROM unnest(%(lines)s::int[], %(turns)s::int[]) AS v (line_number, turn_number)
WHERE
    e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.line_number = v.line_number
    AND e.turn_number IS DISTINCT FROM v.turn_number
