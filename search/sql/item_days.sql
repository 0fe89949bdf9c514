-- On which day (counted from 1970-01-01, UTC) each of some items of one owner was written.
SELECT
    array_agg(d.source_id),
    array_agg(d.number),
    array_agg((d.created_at AT TIME ZONE 'UTC')::date - DATE '1970-01-01')
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
WHERE d.owner_id = %(owner)s
