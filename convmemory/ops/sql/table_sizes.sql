-- The ten largest tables, with their estimated rows and their size with indexes.
SELECT c.relname, greatest(c.reltuples, 0)::bigint, pg_size_pretty(pg_total_relation_size(c.oid))
FROM pg_class AS c
WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
ORDER BY pg_total_relation_size(c.oid) DESC
LIMIT 10
