-- The messages of one session of OpenCode in order, as its first databases keep them: their parts stand apart.
SELECT id, data
FROM message
WHERE session_id = ?
ORDER BY time_created, id
