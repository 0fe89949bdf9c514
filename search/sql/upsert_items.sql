-- Insert or replace the lexical documents of some items of one source, each text with its own configuration.
WITH given AS MATERIALIZED (
    SELECT
        t.*,
        setweight(to_tsvector(t.of_a, t.a), 'A') || setweight(to_tsvector(t.of_b, t.b), 'B')
            || setweight(to_tsvector(t.of_s, t.s), 'C') AS spoken,
        setweight(to_tsvector(t.of_c, t.c), 'C') || setweight(to_tsvector(t.of_d, t.d), 'D') AS unspoken
    FROM unnest(
        %(numbers)s::int[], %(opening_ids)s::bigint[], %(headings)s::text[], %(created_at)s::timestamptz[],
        %(hashes)s::bytea[], %(lengths)s::int[], %(A)s::text[], %(B)s::text[], %(C)s::text[], %(D)s::text[],
        %(S)s::text[], %(of_A)s::regconfig[], %(of_B)s::regconfig[], %(of_C)s::regconfig[], %(of_D)s::regconfig[],
        %(of_S)s::regconfig[]
    ) AS t (
        number, opening_id, heading, created_at, content_hash, length, a, b, c, d, s, of_a, of_b, of_c, of_d, of_s
    )
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
