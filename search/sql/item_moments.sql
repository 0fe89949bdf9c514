-- When each of some items of one owner was written: sources, numbers and moments, each column as the bytes of its values.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(timestamptz_send(d.created_at), ''::bytea)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
WHERE d.owner_id = %(owner)s
