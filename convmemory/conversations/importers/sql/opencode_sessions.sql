-- The sessions of OpenCode, children after their parents, with those columns that newer versions have.
SELECT id, {columns}
FROM {table}
ORDER BY parent_id IS NOT NULL, time_created, id
