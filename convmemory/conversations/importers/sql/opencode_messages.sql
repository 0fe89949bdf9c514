-- The messages of one session of OpenCode in order, from its first database schema, in which parts are stored apart.
SELECT id, data
FROM message
WHERE session_id = ?
ORDER BY time_created, id
