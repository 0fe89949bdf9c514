-- Insert passages of one source with the token vectors of those that have any. The sequence belongs to the table, or to
-- the tables of all groups of owners.
WITH given AS MATERIALIZED (
    SELECT nextval(coalesce(pg_get_serial_sequence('search_passage', 'id'), 'search_passage_id_seq')) AS id, t.*
    FROM unnest(
        %(elements)s::bigint[], %(hashes)s::uuid[], %(items)s::int[], %(starts)s::int[], %(ends)s::int[],
        %(parts)s::smallint[], %(kinds)s::smallint[], %(token_counts)s::smallint[], %(vectors)s::text[],
        %(tokens)s::bytea[], %(asks)s::boolean[]
    ) AS t (
        element_id, content_hash, item_number, "start", "end", part_index, kind, token_count, embedding, tokens, asks
    )
),
passages AS (
    INSERT INTO search_passage
        (id, owner_id, source_id, element_id, content_hash, space_id, item_number, "start", "end", part_index,
         kind, token_count, embedding, asks)
    SELECT
        id, %(owner)s, %(source)s, element_id, content_hash, %(space)s, item_number, "start", "end", part_index,
        kind, token_count, embedding::halfvec, asks
    FROM given
    RETURNING id
)
INSERT INTO search_tokenvectors (passage_id, owner_id, vectors)
SELECT id, %(owner)s, tokens FROM given WHERE tokens IS NOT NULL
RETURNING passage_id
