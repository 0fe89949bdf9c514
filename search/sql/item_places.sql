-- The places of the passages of some items, by kind, a limited number per item.
SELECT t.source_id, t.item_number, e.element_id, e.part_index, e."start", e."end"
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
CROSS JOIN LATERAL (
    SELECT p.element_id, p.part_index, p."start", p."end"
    FROM search_passage AS p
    WHERE
        p.source_id = t.source_id AND p.item_number = t.item_number
        AND p.owner_id = %(owner)s AND p.space_id = %(space)s AND p.kind = ANY(%(kinds)s)
    ORDER BY p.kind, p.id
    LIMIT %(passages)s
) AS e
