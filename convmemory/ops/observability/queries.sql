-- name: index_sizes
-- The largest tables and indexes of the product, in bytes, from the catalogue; of all groups together.
SELECT
    c.relname,
    coalesce(t.relname, ''),
    sum(CASE WHEN c.relkind = 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END)::bigint AS size
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
LEFT JOIN pg_class AS t ON t.oid = i.indrelid
WHERE n.nspname = ANY(current_schemas(false)) AND c.relkind IN ('r', 'i')
GROUP BY c.relname, t.relname
ORDER BY size DESC, c.relname
LIMIT %(limit)s

-- name: space_coverage
-- For each embedding space: how many turns have a vector in it, and how many passages.
SELECT
    s.id,
    s.provider || '/' || s.model || ', ' || s.dimensions,
    s.is_active,
    coalesce(t.turns, 0),
    coalesce(p.passages, 0)
FROM embeddings_embeddingspace AS s
LEFT JOIN (
    SELECT space_id, count(*) FILTER (WHERE chunk_number = 0) AS turns FROM search_itemembedding GROUP BY space_id
) AS t ON t.space_id = s.id
LEFT JOIN (
    SELECT space_id, sum(passages)::bigint AS passages FROM search_passageblock WHERE NOT is_kept GROUP BY space_id
) AS p ON p.space_id = s.id
ORDER BY s.is_active DESC, s.id

-- name: failure_reasons
-- Why sources and items could not be embedded, the most frequent reasons first, without what an endpoint quotes.
SELECT what, reason, count(*) AS times
FROM (
    SELECT 'source' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_sourceindex WHERE error <> ''
    UNION ALL
    SELECT 'item' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_item WHERE error <> ''
) AS failures
GROUP BY what, reason
ORDER BY times DESC, what, reason
LIMIT %(limit)s

-- name: add_measure
-- Add counts to the row of one name, label and hour.
INSERT INTO ops_measure AS m (name, label, hour, count, items, failures, seconds, buckets)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name, label, hour) DO UPDATE SET
    count = m.count + EXCLUDED.count,
    items = m.items + EXCLUDED.items,
    failures = m.failures + EXCLUDED.failures,
    seconds = m.seconds + EXCLUDED.seconds,
    buckets = ARRAY(
        SELECT old + new
        FROM unnest(m.buckets, EXCLUDED.buckets) WITH ORDINALITY AS pair (old, new, n)
        ORDER BY n
    )

-- name: table_bytes
-- Bytes of each table, of all groups together, with its indexes and out-of-line values, largest first.
SELECT c.relname, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = ANY(current_schemas(false))
GROUP BY c.relname
ORDER BY 2 DESC

-- name: map_sample
-- A repeatable sample of one owner's item vectors in one space, and how many items there are.
WITH all_items AS (
    SELECT id FROM search_itemembedding
    WHERE owner_id = %(owner)s AND space_id = %(space)s AND chunk_number = 0
), chosen AS (
    SELECT id FROM all_items ORDER BY hashint8(id), id LIMIT %(limit)s
)
SELECT e.source_id, e.item_number, e.embedding::real[], (SELECT count(*) FROM all_items)
FROM chosen
INNER JOIN search_itemembedding AS e ON e.id = chosen.id
ORDER BY e.id

-- name: map_turns
-- Heading, time and home of one owner's items by (source, number); what is gone has no row.
SELECT d.source_id, d.number, left(d.heading, 100), d.created_at, s.kind, s.object_id
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS wanted (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
WHERE d.owner_id = %(owner)s

-- name: audit_entries
-- How many entries the audit log has ever had: the last number that was given, which outlives old entries.
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('accounts_auditentry', 'id')), 0)

-- name: database_bytes
-- The server's version and the size of the database.
SELECT current_setting('server_version'), pg_database_size(current_database())
