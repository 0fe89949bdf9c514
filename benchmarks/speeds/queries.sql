-- name: synthetic_vectors
-- The table that synthetic vectors are copied into, before they become those of items.
CREATE TEMP TABLE IF NOT EXISTS synthetic_vector (n int, embedding halfvec)

-- name: synthetic_items
-- Item vectors of one source, several chunks an item, from the vectors copied before.
INSERT INTO search_itemembedding
    (owner_id, source_id, space_id, item_number, chunk_number, token_count, content_hash, created_at, embedding)
SELECT %(owner)s, %(source)s, %(space)s, n / %(chunks)s, n %% %(chunks)s, 80, '\x00', now(), embedding
FROM synthetic_vector

-- name: synthetic_passages
-- Passages of the given elements with codes of their vectors and arbitrary token vectors.
INSERT INTO search_passage
    (owner_id, source_id, space_id, element_id, content_hash, item_number, "start", "end", part_index, kind,
     token_count, code, tokens)
SELECT
    %(owner)s, %(source)s, %(space)s, e.element, gen_random_uuid(), e.item, e.start, e.start + 40, 0, e.kind,
    %(tokens)s, e.code, substring(%(random_bytes)s::bytea FROM 1 + (e.n %% 997)::int FOR %(size)s)
FROM unnest(%(elements)s::bigint[], %(items)s::int[], %(starts)s::int[], %(kinds)s::int[], %(codes)s::bytea[])
    WITH ORDINALITY AS e (element, item, start, kind, code, n)

-- name: empty_synthetic_vectors
-- Makes room for the next synthetic vectors.
TRUNCATE synthetic_vector

-- name: copy_synthetic_vectors
-- Reads numbered vectors from the client, in PostgreSQL's binary format.
COPY synthetic_vector (n, embedding) FROM STDIN (FORMAT binary)
