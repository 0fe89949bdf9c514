-- Bytes of each table with its indexes and out-of-line values, largest first.
SELECT c.relname, pg_total_relation_size(c.oid)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = 'public'
ORDER BY 2 DESC
