-- The same as `item_moments` of all items of an owner, each column as the bytes of its numbers: for many items at once.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(int4send((d.created_at AT TIME ZONE %(zone)s)::date - DATE '1970-01-01'), ''::bytea),
    string_agg(int8send(extract(EPOCH FROM d.created_at)::bigint), ''::bytea)
FROM search_item AS d
WHERE d.owner_id = %(owner)s
