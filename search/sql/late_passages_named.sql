-- As `late_passages.sql`, of an owner whose passages were compared by their codes: of each item, the nearest of those named
-- by their ids (from the `first` to the `last` of them all), or such of its passages as ask.
SELECT
    array_agg(t.item),
    string_agg(k.vectors, ''::bytea),
    array_agg(octet_length(k.vectors)),
    array_agg(near.element_id),
    array_agg(near.asks),
    array_agg(s.kind)
FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(for_questions)s::boolean[], %(firsts)s::int[], %(lasts)s::int[])
    WITH ORDINALITY AS t (source_id, item_number, for_questions, first, last, item)
INNER JOIN search_source AS s ON s.id = t.source_id AND s.owner_id = %(owner)s
CROSS JOIN LATERAL (
    SELECT e.id, e.owner_id, e.element_id, e.asks, e.embedding <=> %(vector)s::halfvec AS distance
    FROM search_passage AS e
    WHERE
        e.id = ANY((%(ids)s::bigint[])[t.first : t.last])
        AND e.source_id = t.source_id AND e.owner_id = %(owner)s AND e.space_id = %(space)s
    UNION ALL
    SELECT e.id, e.owner_id, e.element_id, e.asks, e.embedding <=> %(vector)s::halfvec AS distance
    FROM search_passage AS e
    WHERE
        t.for_questions AND e.asks AND e.source_id = t.source_id AND e.item_number = t.item_number
        AND e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
    ORDER BY distance, id
    LIMIT %(passages)s
) AS near
INNER JOIN search_tokenvectors AS k ON k.passage_id = near.id AND k.owner_id = near.owner_id
