-- The messages of one session of Goose in order, with those columns that newer versions have.
SELECT id, role, content_json, created_timestamp, {columns}
FROM messages
WHERE session_id = ?
ORDER BY created_timestamp, id
