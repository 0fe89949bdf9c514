-- The sessions of Goose in order, with those columns that newer versions have.
SELECT id, {columns}
FROM sessions
ORDER BY created_at, id
