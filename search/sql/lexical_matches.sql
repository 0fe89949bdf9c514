-- For each term of a query, the items that hold it in scope, with their ts_rank: one row a term. Only of those sources
-- of the owner whose postings are not packed yet, after an upgrade: every one of their items is looked at.
SELECT
    term.number,
    array_agg(d.source_id),
    array_agg(d.number),
    array_agg(ts_rank(%(weights)s::real[], d.{column}, term.query)),
    array_agg(d.length)
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, number)
INNER JOIN search_item AS d ON d.{column} @@ term.query
WHERE
    d.owner_id = %(owner)s
    AND d.source_id = ANY(%(sources)s::bigint[])
GROUP BY term.number
