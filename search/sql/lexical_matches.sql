-- For each term of a query, the owner's items that hold it in scope, with their ts_rank: one row a term.
-- The index knows the owner as a word of every item (search/fields.py); so the work is that of the owner's own items,
-- and the owner's other indexes are kept from being read in its stead.
SELECT
    term.number,
    array_agg(d.source_id),
    array_agg(d.number),
    array_agg(ts_rank(%(weights)s::real[], d.{column}, term.query)),
    array_agg(d.length)
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, number)
INNER JOIN search_item AS d
    ON (array_to_tsvector(ARRAY['owner ' || d.owner_id::text]) || d.{column}) @@ (term.query && %(owner_word)s::tsquery)
WHERE d.owner_id + 0 = %(owner)s AND {filters}
GROUP BY term.number
