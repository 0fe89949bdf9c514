-- What tells whether a process holds an owner's blocks of binary codes as they are now: read from the index alone.
SELECT count(*), coalesce(bit_xor(hashint8extended(b.id, 0)), 0)
FROM search_binarycodeblock AS b
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s
