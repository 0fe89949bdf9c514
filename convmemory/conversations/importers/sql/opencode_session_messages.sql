-- The messages of one session of OpenCode in order, as its newer databases keep them: whole.
SELECT id, type, time_created, data
FROM session_message
WHERE session_id = ?
ORDER BY {order}, id
