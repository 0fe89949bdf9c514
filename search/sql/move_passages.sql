-- Renumber the passages of some items of one source in one space; existing passages under the new numbers stay.
UPDATE search_passage AS p
SET item_number = moved.new
FROM unnest(%(old)s::int[], %(new)s::int[]) AS moved (old, new)
WHERE p.source_id = %(source)s AND p.owner_id = %(owner)s AND p.space_id = %(space)s AND p.item_number = moved.old
