-- The passages of some items that are nearest to the query, a few an item, nearest first.
SELECT source_id, item_number, element_id, part_index, "start", "end", similarity
FROM (
    SELECT
        e.source_id, e.item_number, e.element_id, e.part_index, e."start", e."end",
        1 - (e.embedding <=> %(vector)s::halfvec) AS similarity,
        row_number() OVER (
            PARTITION BY e.source_id, e.item_number ORDER BY e.embedding <=> %(vector)s::halfvec
        ) AS place
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
    INNER JOIN search_passage AS e USING (source_id, item_number)
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
) AS ranked
WHERE place <= %(passages)s
ORDER BY place
