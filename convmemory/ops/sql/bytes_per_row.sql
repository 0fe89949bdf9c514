-- Bytes per row of tables and of their b-tree and GIN indexes, by the planner's row counts; vector indexes apart.
SELECT
    c.relname,
    pg_table_size(c.oid) / c.reltuples,
    coalesce(sum(pg_relation_size(i.indexrelid)) FILTER (WHERE a.amname <> 'hnsw'), 0) / c.reltuples
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_index AS i ON i.indrelid = c.oid
LEFT JOIN pg_class AS x ON x.oid = i.indexrelid
LEFT JOIN pg_am AS a ON a.oid = x.relam
WHERE n.nspname = 'public' AND c.relname = ANY(%s) AND c.reltuples >= %s
GROUP BY c.oid, c.relname, c.reltuples
