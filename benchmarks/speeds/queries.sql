-- name: synthetic_vectors
-- The table that synthetic vectors are copied into, before they become those of items.
CREATE TEMP TABLE IF NOT EXISTS synthetic_vector (n int, embedding halfvec)

-- name: synthetic_items
-- Item vectors of one source, several chunks an item, from the vectors copied before.
INSERT INTO search_itemembedding
    (owner_id, source_id, space_id, item_number, chunk_number, token_count, content_hash, created_at, embedding)
SELECT %(owner)s, %(source)s, %(space)s, n / %(chunks)s, n %% %(chunks)s, 80, '\x00', now(), embedding
FROM synthetic_vector

-- name: empty_synthetic_vectors
-- Makes room for the next synthetic vectors.
TRUNCATE synthetic_vector

-- name: copy_synthetic_vectors
-- Reads numbered vectors from the client, in PostgreSQL's binary format.
COPY synthetic_vector (n, embedding) FROM STDIN (FORMAT binary)
