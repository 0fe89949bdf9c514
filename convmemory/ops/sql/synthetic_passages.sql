-- Passages of the given messages from the vectors copied before, with arbitrary token vectors.
WITH passages AS (
    INSERT INTO search_passage
        (owner_id, source_id, space_id, element_id, content_hash, item_number, "start", "end", part_index, kind,
         token_count, embedding)
    SELECT
        %(owner)s, %(source)s, %(space)s, m.id, gen_random_uuid(), m.turn_number, 0, 40, 0, v.n %% 2,
        %(tokens)s, v.embedding
    FROM synthetic_vector AS v
    INNER JOIN conversations_message AS m ON m.id = (%(messages)s::bigint[])[v.n + 1]
    RETURNING id
)
INSERT INTO search_tokenvectors (passage_id, owner_id, vectors)
SELECT id, %(owner)s, substring(%(random_bytes)s::bytea FROM 1 + (id %% 997)::int FOR %(size)s) FROM passages
