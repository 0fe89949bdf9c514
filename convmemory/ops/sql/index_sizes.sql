-- The largest tables and indexes of the product, in bytes, from the catalogue.
SELECT
    c.relname,
    coalesce(t.relname, ''),
    CASE WHEN c.relkind = 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END AS size
FROM pg_class AS c
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_class AS t ON t.oid = i.indrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
ORDER BY size DESC, c.relname
LIMIT %(limit)s
