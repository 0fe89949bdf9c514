-- Insert or replace the lexical documents of some items of one source.
WITH given AS MATERIALIZED (
    SELECT
        t.*,
        setweight(to_tsvector('convmemory', t.a), 'A') || setweight(to_tsvector('convmemory', t.b), 'B')
            || setweight(to_tsvector('convmemory', t.s), 'C') AS spoken,
        setweight(to_tsvector('convmemory', t.c), 'C') || setweight(to_tsvector('convmemory', t.d), 'D') AS unspoken
    FROM unnest(
        %(numbers)s::int[], %(opening_ids)s::bigint[], %(headings)s::text[], %(created_at)s::timestamptz[],
        %(hashes)s::bytea[], %(lengths)s::int[], %(A)s::text[], %(B)s::text[], %(C)s::text[], %(D)s::text[],
        %(S)s::text[]
    ) AS t (number, opening_id, heading, created_at, content_hash, length, a, b, c, d, s)
)
INSERT INTO search_item
    (owner_id, source_id, number, opening_id, heading, created_at, content_hash, length, error,
     spoken, unspoken)
SELECT
    %(owner)s, %(source)s, number, opening_id, heading, created_at, content_hash, length, '',
    spoken, unspoken
FROM given
ON CONFLICT (source_id, number, owner_id) DO UPDATE SET
    opening_id = EXCLUDED.opening_id,
    heading = EXCLUDED.heading,
    created_at = EXCLUDED.created_at,
    content_hash = EXCLUDED.content_hash,
    length = EXCLUDED.length,
    error = '',
    spoken = EXCLUDED.spoken,
    unspoken = EXCLUDED.unspoken
