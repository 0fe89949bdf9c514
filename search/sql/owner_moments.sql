-- The same as `item_moments` of all items of an owner.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(timestamptz_send(d.created_at), ''::bytea)
FROM search_item AS d
WHERE d.owner_id = %(owner)s
