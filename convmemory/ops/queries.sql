-- name: count_all
-- How many rows a table has.
SELECT count(*) FROM {}

-- name: bytes_per_row
-- Bytes per row of tables, of all groups together, and of their indexes, by the planner's row counts.
WITH tables AS (
    SELECT
        c.relname,
        c.reltuples,
        pg_table_size(c.oid) AS bytes,
        (
            SELECT coalesce(sum(pg_relation_size(i.indexrelid)), 0)
            FROM pg_index AS i
            WHERE i.indrelid = c.oid
        ) AS index_bytes
    FROM pg_class AS c
    INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY(current_schemas(false)) AND c.relname = ANY(%s) AND c.reltuples >= 0
)

SELECT relname, sum(bytes) / sum(reltuples), (sum(index_bytes) / sum(reltuples)::numeric)::float
FROM tables
GROUP BY relname
HAVING sum(reltuples) >= %s
