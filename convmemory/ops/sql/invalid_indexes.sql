-- Indexes that are not valid and that nobody is building.
SELECT c.relname
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE
    NOT (i.indisvalid AND i.indisready)
    AND c.relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = c.oid)
ORDER BY c.relname
