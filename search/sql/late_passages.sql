-- Token vectors of the passages of some items, joined, and their sizes: the passages nearest to the query, a few an item.
-- Token vectors are looked up for those few alone: an item of a coding agent has hundreds of passages.
SELECT
    item,
    string_agg(k.vectors, ''::bytea ORDER BY distance),
    array_agg(octet_length(k.vectors) ORDER BY distance)
FROM (
    SELECT
        t.item,
        e.id,
        e.owner_id,
        e.embedding <=> %(vector)s::halfvec AS distance,
        row_number() OVER (PARTITION BY t.item ORDER BY e.embedding <=> %(vector)s::halfvec) AS place
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) WITH ORDINALITY
        AS t (source_id, item_number, item)
    INNER JOIN search_passage AS e
        ON e.source_id = t.source_id AND e.item_number = t.item_number
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
) AS ranked
INNER JOIN search_tokenvectors AS k ON k.passage_id = ranked.id AND k.owner_id = ranked.owner_id
WHERE place <= %(passages)s
GROUP BY item
