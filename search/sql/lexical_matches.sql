-- For each term of a query, the owner's turns that hold it in scope, with their ts_rank: one row a term.
SELECT
    term.number,
    array_agg(d.conversation_id),
    array_agg(d.turn_number),
    array_agg(ts_rank(%(weights)s::real[], d.{column}, term.query)),
    array_agg(d.length)
FROM unnest(%(queries)s::tsquery[]) WITH ORDINALITY AS term (query, number)
INNER JOIN search_turndocument AS d ON d.{column} @@ term.query
WHERE d.owner_id = %(owner)s AND {filters}
GROUP BY term.number
