-- Whether a session of OpenCode has a message in a table.
SELECT 1
FROM {table}
WHERE session_id = ?
LIMIT 1
