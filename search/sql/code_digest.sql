-- A digest of an owner's current blocks of binary codes, read from the index alone.
SELECT count(*), coalesce(bit_xor(hashint8extended(b.id, 0)), 0)
FROM search_binarycodeblock AS b
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s
