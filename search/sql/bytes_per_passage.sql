-- Bytes per passage of the table, its b-trees, the blocks of signs, the named vector index, and the token vectors.
SELECT
    pg_table_size('memory_passage')::float / n,
    (pg_indexes_size('memory_passage') - coalesce(pg_relation_size(to_regclass(%s)), 0))::float / n,
    pg_total_relation_size('memory_signblock')::float / n,
    coalesce(pg_relation_size(to_regclass(%s)), 0)::float / n,
    pg_total_relation_size('memory_passagetokens')::float / n
FROM (SELECT greatest(count(*), 1) AS n FROM memory_passage) AS passages
