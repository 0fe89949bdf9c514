-- Token vectors of the passages of some items, joined, their sizes, their elements, whether they ask, and the kind of the
-- items' sources: of each item the few passages that are nearest to the query, of some items only such as ask.
-- Token vectors are looked up for those few alone: an item of a coding agent has hundreds of passages.
SELECT
    item,
    string_agg(k.vectors, ''::bytea ORDER BY distance),
    array_agg(octet_length(k.vectors) ORDER BY distance),
    array_agg(ranked.element_id ORDER BY distance),
    array_agg(ranked.asks ORDER BY distance),
    min(ranked.source_kind)
FROM (
    SELECT
        t.item,
        e.id,
        e.owner_id,
        e.element_id,
        e.asks,
        s.kind AS source_kind,
        e.embedding <=> %(vector)s::halfvec AS distance,
        row_number() OVER (PARTITION BY t.item ORDER BY e.embedding <=> %(vector)s::halfvec) AS place
    FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(for_questions)s::boolean[]) WITH ORDINALITY
        AS t (source_id, item_number, for_questions, item)
    INNER JOIN search_passage AS e
        ON e.source_id = t.source_id AND e.item_number = t.item_number AND (e.asks OR NOT t.for_questions)
    INNER JOIN search_source AS s ON s.id = e.source_id
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
) AS ranked
INNER JOIN search_tokenvectors AS k ON k.passage_id = ranked.id AND k.owner_id = ranked.owner_id
WHERE place <= %(passages)s
GROUP BY item
