-- The owner's sources that do not pass the filters.
SELECT array_agg(e.source_id)
FROM (SELECT id AS source_id FROM search_source WHERE owner_id = %(owner)s) AS e
WHERE NOT ({filters})
