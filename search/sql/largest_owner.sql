-- The most passages of one space that any one owner has.
SELECT coalesce(max(passages), 0)
FROM (SELECT sum(passages) AS passages FROM search_sourceindex WHERE space_id = %s GROUP BY owner_id) AS owners
