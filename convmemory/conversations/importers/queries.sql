-- name: cursor_composers
-- The keys of all composers of Cursor's editor.
SELECT key
FROM cursorDiskKV
WHERE key >= 'composerData:' AND key < 'composerData;'

-- name: cursor_values
-- The values that Cursor's editor stores under the keys of a range.
SELECT key, CAST(value AS TEXT) AS value
FROM cursorDiskKV
WHERE key >= ? AND key < ?

-- name: cursor_value
-- The value that Cursor's editor stores under a key.
SELECT CAST(value AS TEXT) AS value
FROM {table}
WHERE key = ?

-- name: goose_sessions
-- The sessions of Goose in order, with those columns that newer versions have.
SELECT id, {columns}
FROM sessions
ORDER BY created_at, id

-- name: goose_messages
-- The messages of one session of Goose in order, with those columns that newer versions have.
SELECT id, role, content_json, created_timestamp, {columns}
FROM messages
WHERE session_id = ?
ORDER BY created_timestamp, id

-- name: opencode_sessions
-- The sessions of OpenCode, children after their parents, with those columns that newer versions have.
SELECT id, {columns}
FROM {table}
ORDER BY parent_id IS NOT NULL, time_created, id

-- name: opencode_any_message
-- Whether a session of OpenCode has a message in a table.
SELECT 1
FROM {table}
WHERE session_id = ?
LIMIT 1

-- name: opencode_parts
-- The parts of all messages of one session of OpenCode, in the order of the messages.
SELECT message.id AS message_id, part.id, part.data
FROM message
CROSS JOIN part ON part.message_id = message.id
WHERE message.session_id = ?
ORDER BY message.time_created, message.id, part.id

-- name: opencode_messages
-- The messages of one session of OpenCode in order, from its first database schema, in which parts are stored apart.
SELECT id, data
FROM message
WHERE session_id = ?
ORDER BY time_created, id

-- name: opencode_session_messages
-- The messages of one session of OpenCode in order, from its newer database schema, in which they are stored whole.
SELECT id, type, time_created, data
FROM session_message
WHERE session_id = ?
ORDER BY {order}, id

-- name: zed_threads
-- The threads of Zed in order, with those columns that newer versions have.
SELECT id, summary, updated_at, data_type, data, {columns}
FROM threads
ORDER BY updated_at, id

-- name: declared_rows
-- All rows of a table of a declared format.
SELECT {columns}
FROM "{table}"
ORDER BY {order}

-- name: declared_rows_of
-- The rows of a table of a declared format that belong to one conversation.
SELECT {columns}
FROM "{table}"
WHERE {by} = ?
ORDER BY {order}
