-- Tables of some size that were never analyzed.
SELECT relname
FROM pg_stat_user_tables
WHERE
    schemaname = current_schema() AND last_analyze IS NULL AND last_autoanalyze IS NULL
    AND pg_relation_size(relid) > 10 * 1024 * 1024
ORDER BY relname
