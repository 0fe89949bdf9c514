-- The largest tables and indexes of the product, in bytes, from the catalogue; of all groups together.
SELECT
    c.relname,
    coalesce(t.relname, ''),
    sum(CASE WHEN c.relkind = 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END)::bigint AS size
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_class AS t ON t.oid = i.indrelid
WHERE n.nspname = ANY(%(schemas)s) AND c.relkind IN ('r', 'i')
GROUP BY c.relname, t.relname
ORDER BY size DESC, c.relname
LIMIT %(limit)s
