-- Tables of some size that were never analyzed, with their schemas.
SELECT schemaname, relname
FROM pg_stat_user_tables
WHERE
    schemaname = ANY(%s) AND last_analyze IS NULL AND last_autoanalyze IS NULL
    AND pg_relation_size(relid) > 10 * 1024 * 1024
ORDER BY schemaname, relname
