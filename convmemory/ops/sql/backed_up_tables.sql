-- The tables in these schemas whose rows a backup counts.
SELECT n.nspname, c.relname
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname = ANY(%s)
ORDER BY n.nspname, c.relname
