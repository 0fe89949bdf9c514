-- The blocks of postings of an owner's items in one column with their digest, and the contents of those that are not cached.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.source_id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.items ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.words ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.sizes ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.postings ORDER BY b.id) FILTER (WHERE cached.id IS NULL)
FROM search_postingblock AS b
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.home = %(home)s
