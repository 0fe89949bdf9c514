-- Update the positions of one conversation's messages that have moved, from one turn on.
UPDATE memory_messageembedding AS r
SET "position" = m."position"
FROM conversations_message AS m
WHERE
    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s AND coalesce(m.turn_number >= %(first_turn)s, TRUE)
    AND r.message_id = m.id AND r.owner_id = m.owner_id AND r."position" <> m."position"
