-- Of each item the few passages that are nearest to the query, of some items only such as ask: in one row, for each passage the
-- place of its item, the size of its token vectors, its element, whether it asks and the kind of its source; and all token
-- vectors joined.
-- Token vectors are looked up for those few alone: an item of a coding agent has hundreds of passages.
SELECT
    array_agg(t.item),
    string_agg(k.vectors, ''::bytea),
    array_agg(octet_length(k.vectors)),
    array_agg(near.element_id),
    array_agg(near.asks),
    array_agg(s.kind)
FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(for_questions)s::boolean[]) WITH ORDINALITY
    AS t (source_id, item_number, for_questions, item)
INNER JOIN search_source AS s ON s.id = t.source_id AND s.owner_id = %(owner)s
CROSS JOIN LATERAL (
    SELECT e.id, e.owner_id, e.element_id, e.asks, e.embedding <=> %(vector)s::halfvec AS distance
    FROM search_passage AS e
    WHERE
        e.source_id = t.source_id AND e.item_number = t.item_number AND (e.asks OR NOT t.for_questions)
        AND e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
    ORDER BY distance, e.id
    LIMIT %(passages)s
) AS near
INNER JOIN search_tokenvectors AS k ON k.passage_id = near.id AND k.owner_id = near.owner_id
