-- The ten largest tables, of all groups together, with their estimated rows and their size with indexes.
SELECT c.relname, sum(greatest(c.reltuples, 0))::bigint, pg_size_pretty(sum(pg_total_relation_size(c.oid)))
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = ANY(%s)
GROUP BY c.relname
ORDER BY sum(pg_total_relation_size(c.oid)) DESC
LIMIT 10
