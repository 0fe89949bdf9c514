-- When each of some items of one owner was written: on which day in a time zone (counted from 1970-01-01), in which second.
SELECT
    array_agg(d.source_id),
    array_agg(d.number),
    array_agg((d.created_at AT TIME ZONE %(zone)s)::date - DATE '1970-01-01'),
    array_agg(extract(EPOCH FROM d.created_at)::bigint)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
WHERE d.owner_id = %(owner)s
