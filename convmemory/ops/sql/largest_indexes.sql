-- The ten largest indexes, how large they are, and how often they were used.
SELECT indexrelname, relname, pg_size_pretty(pg_relation_size(indexrelid)), idx_scan
FROM pg_stat_user_indexes
WHERE schemaname = current_schema()
ORDER BY pg_relation_size(indexrelid) DESC
LIMIT 10
