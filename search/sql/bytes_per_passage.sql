-- Bytes per passage of the table, its b-trees, the blocks of codes, the named vector index, and the token vectors.
SELECT
    pg_table_size('search_passage')::float / n,
    (pg_indexes_size('search_passage') - coalesce(pg_relation_size(to_regclass(%s)), 0))::float / n,
    pg_total_relation_size('search_binarycodeblock')::float / n,
    coalesce(pg_relation_size(to_regclass(%s)), 0)::float / n,
    pg_total_relation_size('search_tokenvectors')::float / n
FROM (SELECT greatest(count(*), 1) AS n FROM search_passage) AS passages
