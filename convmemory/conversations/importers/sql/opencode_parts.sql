-- The parts of all messages of one session of OpenCode, in the order of the messages.
SELECT message.id AS message_id, part.id, part.data
FROM message
CROSS JOIN part ON part.message_id = message.id
WHERE message.session_id = ?
ORDER BY message.time_created, message.id, part.id
