-- The blocks of binary codes of an owner's passages with their digest, and the contents of those that are not cached.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.source_id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.entries ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.codes ORDER BY b.id) FILTER (WHERE cached.id IS NULL)
FROM search_binarycodeblock AS b
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s
