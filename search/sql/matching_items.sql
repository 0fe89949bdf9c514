-- The owner's items that pass the filters.
SELECT array_agg(d.source_id), array_agg(d.number)
FROM search_item AS d
WHERE d.owner_id = %(owner)s AND {filters}
