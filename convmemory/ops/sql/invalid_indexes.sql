-- Indexes that are not valid and that nobody is building, with their schemas.
SELECT n.nspname, c.relname
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE
    NOT (i.indisvalid AND i.indisready)
    AND n.nspname = ANY(%s)
    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = c.oid)
ORDER BY n.nspname, c.relname
