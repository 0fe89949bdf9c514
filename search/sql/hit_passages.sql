-- The passages of some items that are nearest to the query, a few an item, nearest first.
SELECT t.source_id, t.item_number, near.element_id, near.part_index, near."start", near."end", 1 - near.distance AS similarity
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
CROSS JOIN LATERAL (
    SELECT e.id, e.element_id, e.part_index, e."start", e."end", e.embedding <=> %(vector)s::halfvec AS distance
    FROM search_passage AS e
    WHERE
        e.source_id = t.source_id AND e.item_number = t.item_number
        AND e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
    ORDER BY distance, e.id
    LIMIT %(passages)s
) AS near
ORDER BY near.distance, near.id
