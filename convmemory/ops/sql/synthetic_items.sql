-- Item vectors of one source, several chunks an item, from the vectors copied before.
INSERT INTO search_itemembedding
    (owner_id, source_id, space_id, item_number, chunk_number, token_count, content_hash, created_at, embedding)
SELECT %(owner)s, %(source)s, %(space)s, n / %(chunks)s, n %% %(chunks)s, 80, '\x00', now(), embedding
FROM synthetic_vector
