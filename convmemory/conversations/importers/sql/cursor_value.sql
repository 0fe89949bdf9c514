-- The value that Cursor's editor keeps under a key.
SELECT CAST(value AS TEXT) AS value
FROM {table}
WHERE key = ?
