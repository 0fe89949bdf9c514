-- Record which passages of some elements of one source ask; in every space.
UPDATE search_passage AS p
SET asks = asking.part_index IS NOT NULL
FROM search_passage AS mine
LEFT JOIN unnest(%(elements)s::bigint[], %(parts)s::int[], %(starts)s::int[], %(ends)s::int[])
    AS asking (element_id, part_index, "start", "end") USING (element_id, part_index, "start", "end")
WHERE
    mine.id = p.id AND mine.source_id = %(source)s AND mine.owner_id = %(owner)s
    AND mine.item_number BETWEEN %(first)s AND %(last)s AND mine.asks <> (asking.part_index IS NOT NULL)
