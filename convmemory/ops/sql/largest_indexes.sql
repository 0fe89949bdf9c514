-- The ten largest indexes, of all groups together, how large they are, and how often they were used.
SELECT indexrelname, relname, pg_size_pretty(sum(pg_relation_size(indexrelid))), sum(idx_scan)::bigint
FROM pg_stat_user_indexes
WHERE schemaname = ANY(%s)
GROUP BY indexrelname, relname
ORDER BY sum(pg_relation_size(indexrelid)) DESC
LIMIT 10
