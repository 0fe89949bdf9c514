-- The value that Cursor's editor stores under a key.
SELECT CAST(value AS TEXT) AS value
FROM {table}
WHERE key = ?
