-- name: database_facts
-- The server's version, the size of the database, its pgvector and its name.
SELECT
    current_setting('server_version'),
    pg_size_pretty(pg_database_size(current_database())),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    current_database()

-- name: connections_in_use
-- How many connections are in use, and how many there may be.
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity

-- name: tables_without_statistics
-- Tables of some size that were never analyzed.
SELECT relname
FROM pg_stat_user_tables
WHERE
    schemaname = ANY(current_schemas(false)) AND last_analyze IS NULL AND last_autoanalyze IS NULL
    AND pg_relation_size(relid) > 10 * 1024 * 1024
ORDER BY relname

-- name: tables_with_outdated_statistics
-- Tables of which more has changed since their last ANALYZE than this many rows and this share of all, with the
-- rows that changed.
SELECT relname, n_mod_since_analyze
FROM pg_stat_user_tables
WHERE
    schemaname = ANY(current_schemas(false)) AND greatest(last_analyze, last_autoanalyze) IS NOT NULL
    AND n_mod_since_analyze > %(rows)s + %(share)s * n_live_tup
ORDER BY relname

-- name: largest_indexes
-- The ten largest indexes, how large they are, and how often they were used.
SELECT indexrelname, relname, pg_size_pretty(sum(pg_relation_size(indexrelid))), sum(idx_scan)::bigint
FROM pg_stat_user_indexes
WHERE schemaname = ANY(current_schemas(false))
GROUP BY indexrelname, relname
ORDER BY sum(pg_relation_size(indexrelid)) DESC
LIMIT 10

-- name: invalid_indexes
-- Indexes that are not valid and are not being built.
SELECT c.relname
FROM pg_index AS i
INNER JOIN pg_class AS c ON c.oid = i.indexrelid
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE
    NOT (i.indisvalid AND i.indisready)
    AND n.nspname = ANY(current_schemas(false))
    AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = c.oid)
ORDER BY c.relname

-- name: index_names
-- The names of all indexes.
SELECT indexname FROM pg_indexes WHERE schemaname = ANY(current_schemas(false))

-- name: table_sizes
-- The ten largest tables, with their estimated rows and their size with indexes.
SELECT c.relname, sum(greatest(c.reltuples, 0))::bigint, pg_size_pretty(sum(pg_total_relation_size(c.oid)))
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = ANY(current_schemas(false))
GROUP BY c.relname
ORDER BY sum(pg_total_relation_size(c.oid)) DESC
LIMIT 10

-- name: passages_lost
-- Sources that count as indexed but hold another number of passages in a space than was stored, or whose blocks hold other
-- vectors of items than there are.
WITH current AS (
    SELECT i.source_id, i.passages
    FROM search_sourceindex AS i
    INNER JOIN search_source AS s ON s.id = i.source_id AND s.version = i.indexed_version
    WHERE i.space_id = %(space)s
),
items AS (
    SELECT source_id, item_number / %(items)s AS number, count(*) AS vectors
    FROM search_itemembedding
    WHERE space_id = %(space)s
    GROUP BY source_id, item_number / %(items)s
),
packed AS (
    SELECT source_id, number, passages, octet_length(entries) / %(entry_bytes)s - passages AS vectors
    FROM search_passageblock
    WHERE space_id = %(space)s AND NOT is_kept
)
SELECT current.source_id
FROM current
LEFT JOIN (
    SELECT source_id, sum(passages) AS passages FROM packed GROUP BY source_id
) AS s ON s.source_id = current.source_id
WHERE current.passages <> coalesce(s.passages, 0)
UNION
SELECT current.source_id
FROM items FULL JOIN packed USING (source_id, number)
INNER JOIN current USING (source_id)
WHERE coalesce(items.vectors, 0) <> coalesce(packed.vectors, 0)


-- name: inactive_slots
-- Return the replication slots that nothing reads, with the size of the log that the server keeps for each.
SELECT
    slot_name,
    pg_size_pretty(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))
FROM pg_replication_slots
WHERE NOT active AND restart_lsn IS NOT NULL AND NOT pg_is_in_recovery()
ORDER BY slot_name
