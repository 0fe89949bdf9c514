-- The values that Cursor's editor stores under the keys of a range.
SELECT key, CAST(value AS TEXT) AS value
FROM cursorDiskKV
WHERE key >= ? AND key < ?
