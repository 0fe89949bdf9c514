-- A repeatable sample of one owner's item vectors in one space, and how many items there are.
WITH all_items AS (
    SELECT id FROM search_itemembedding
    WHERE owner_id = %(owner)s AND space_id = %(space)s AND chunk_number = 0
), chosen AS (
    SELECT id FROM all_items ORDER BY hashint8(id), id LIMIT %(limit)s
)
SELECT e.source_id, e.item_number, e.embedding::real[], (SELECT count(*) FROM all_items)
FROM chosen
INNER JOIN search_itemembedding AS e ON e.id = chosen.id
ORDER BY e.id
