-- Bytes of each table, of all groups together, with its indexes and out-of-line values, largest first.
SELECT c.relname, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = ANY(%s)
GROUP BY c.relname
ORDER BY 2 DESC
