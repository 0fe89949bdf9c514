-- The threads of Zed in order, with those columns that newer versions have.
SELECT id, summary, updated_at, data_type, data, {columns}
FROM threads
ORDER BY updated_at, id
