-- The sessions of OpenCode, those that others started behind them, with those columns that newer versions have.
SELECT id, {columns}
FROM {table}
ORDER BY parent_id IS NOT NULL, time_created, id
