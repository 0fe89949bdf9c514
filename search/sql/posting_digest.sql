-- A digest of an owner's current postings of one column, and the sources not packed yet.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    (SELECT array_agg(s.id) FROM search_source AS s WHERE s.owner_id = %(owner)s AND s.layout < %(layout)s)
FROM search_postingblock AS b
WHERE b.owner_id = %(owner)s AND b.home = %(home)s
