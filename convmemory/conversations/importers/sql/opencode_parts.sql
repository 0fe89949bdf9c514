-- The parts of one message of OpenCode in order.
SELECT id, data
FROM part
WHERE message_id = ?
ORDER BY id
