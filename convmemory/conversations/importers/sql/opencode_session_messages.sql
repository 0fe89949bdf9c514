-- The messages of one session of OpenCode in order, from its newer database schema, in which they are stored whole.
SELECT id, type, time_created, data
FROM session_message
WHERE session_id = ?
ORDER BY {order}, id
