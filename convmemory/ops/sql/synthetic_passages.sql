-- Passages of the given elements from the vectors copied before, with arbitrary token vectors.
WITH passages AS (
    INSERT INTO search_passage
        (owner_id, source_id, space_id, element_id, content_hash, item_number, "start", "end", part_index, kind,
         token_count, embedding)
    SELECT
        %(owner)s, %(source)s, %(space)s, e.element, gen_random_uuid(), e.item, e.start, e.start + 40, 0, e.kind,
        %(tokens)s, v.embedding
    FROM synthetic_vector AS v
    INNER JOIN
        unnest(%(elements)s::bigint[], %(items)s::int[], %(starts)s::int[], %(kinds)s::int[])
        WITH ORDINALITY AS e (element, item, start, kind, place)
        ON e.place = v.n + 1
    RETURNING id
)
INSERT INTO search_tokenvectors (passage_id, owner_id, vectors)
SELECT id, %(owner)s, substring(%(random_bytes)s::bytea FROM 1 + (id %% 997)::int FOR %(size)s) FROM passages
