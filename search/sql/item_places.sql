-- The places of the passages of some items, by kind, a limited number per item.
SELECT source_id, item_number, element_id, part_index, "start", "end"
FROM (
    SELECT
        e.source_id, e.item_number, e.element_id, e.part_index, e."start", e."end",
        row_number() OVER (PARTITION BY e.source_id, e.item_number ORDER BY e.kind, e.id) AS place
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
    INNER JOIN search_passage AS e USING (source_id, item_number)
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
) AS passages
WHERE place <= %(passages)s
