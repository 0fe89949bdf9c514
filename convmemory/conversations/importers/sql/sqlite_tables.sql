-- The ordinary tables of an SQLite database: no views, and no virtual tables, which can run code of their own.
SELECT name
FROM sqlite_master
WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'
LIMIT 1000
