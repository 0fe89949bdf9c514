-- name: cursor_keys
-- The keys of a range under which Cursor's editor stores values.
SELECT key
FROM cursorDiskKV
WHERE key >= ? AND key < ?

-- name: cursor_values
-- The values that Cursor's editor stores under the keys of a range.
SELECT key, CAST(value AS TEXT) AS value
FROM cursorDiskKV
WHERE key >= ? AND key < ?

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

-- name: rows
-- All rows of a table.
SELECT {columns}
FROM "{table}"
ORDER BY {order}

-- name: rows_of
-- The rows of a table in which a column has a value.
SELECT {columns}
FROM "{table}"
WHERE {by} = ?
ORDER BY {order}
