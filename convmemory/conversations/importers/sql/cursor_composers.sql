-- The keys of all composers of Cursor's editor.
SELECT key
FROM cursorDiskKV
WHERE key >= 'composerData:' AND key < 'composerData;'
