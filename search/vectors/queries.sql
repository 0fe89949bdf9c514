-- name: passage_blocks
-- The blocks of an owner's passages with their digest, whether they have more passages than a small archive, and the contents of
-- those that are not cached: of a small archive whole, of a larger one without the second parts of codes and without tokens.
WITH amount AS (
    SELECT sum(passages) > %(small)s AS is_large
    FROM search_passageblock
    WHERE owner_id = %(owner)s AND space_id = %(space)s AND NOT is_kept
)
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    bool_or(amount.is_large),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.source_id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(s.kind ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.entries ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.codes ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.fine ORDER BY b.id) FILTER (WHERE cached.id IS NULL AND NOT amount.is_large),
    array_agg(b.tokens ORDER BY b.id) FILTER (WHERE cached.id IS NULL AND NOT amount.is_large)
FROM search_passageblock AS b
CROSS JOIN amount
INNER JOIN search_source AS s ON s.id = b.source_id AND s.owner_id = b.owner_id
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s AND NOT b.is_kept

-- name: item_vectors
-- The vectors of some items of one owner, in PostgreSQL's binary form of half precision, and their ids, in this order.
SELECT array_agg(id ORDER BY id), string_agg(substring(halfvec_send(embedding) FROM 5), ''::bytea ORDER BY id)
FROM search_itemembedding
WHERE id = ANY(%(items)s::bigint[]) AND owner_id = %(owner)s

-- name: token_slices
-- Slices of the tokens of some blocks of one owner, in the order that is given; none of a block that was replaced.
SELECT array_agg(coalesce(substring(b.tokens FROM t.first + 1 FOR t.size), '') ORDER BY t.place)
FROM unnest(%(blocks)s::bigint[], %(firsts)s::int[], %(sizes)s::int[]) WITH ORDINALITY AS t (block, first, size, place)
LEFT JOIN search_passageblock AS b ON b.id = t.block AND b.owner_id = %(owner)s

-- name: entries_of_blocks
-- The entries of some blocks of one owner, in one space, or in any.
SELECT b.source_id, b.entries
FROM unnest(%(sources)s::bigint[], %(numbers)s::int[]) AS t (source_id, number)
INNER JOIN search_passageblock AS b
    ON b.source_id = t.source_id AND b.number = t.number AND NOT b.is_kept
WHERE b.owner_id = %(owner)s AND (%(space)s::bigint IS NULL OR b.space_id = %(space)s::bigint)

-- name: digest_of_blocks
-- A digest of all blocks of an owner in a space, also of those that no search reads.
SELECT count(*), coalesce(bit_xor(hashint8extended(id, 0)), 0)
FROM search_passageblock
WHERE owner_id = %(owner)s AND space_id = %(space)s

-- name: digests_of_texts
-- The same with the ids of the blocks; and, of those that are not cached, ids and the digests of their texts.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.digests ORDER BY b.id) FILTER (WHERE cached.id IS NULL)
FROM search_passageblock AS b
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s

-- name: item_vectors_to_pack
-- The vectors of a source's items in one space, for some blocks of items.
SELECT e.id, e.item_number, e.chunk_number, substring(halfvec_send(e.embedding) FROM 5)
FROM search_itemembedding AS e
WHERE
    e.owner_id = %(owner)s AND e.source_id = %(source)s AND e.space_id = %(space)s
    AND e.item_number BETWEEN %(first)s AND %(last)s AND e.item_number / %(items)s = ANY(%(numbers)s)

-- name: insert_blocks
-- Insert blocks of passages of one source.
INSERT INTO search_passageblock
    (owner_id, source_id, space_id, is_kept, number, last_item, passages, entries, digests, codes, fine, tokens)
SELECT %(owner)s, %(source)s, %(space)s, %(is_kept)s, t.*
FROM unnest(
    %(numbers)s::int[], %(last_items)s::int[], %(counts)s::int[], %(entries)s::bytea[], %(digests)s::bytea[], %(codes)s::bytea[],
    %(fine)s::bytea[], %(tokens)s::bytea[]
) AS t
RETURNING id

-- name: try_lock
-- Try to take an advisory lock without waiting; it is held until it is released.
SELECT pg_try_advisory_lock(%s, %s)

-- name: unlock
-- Release an advisory lock.
SELECT pg_advisory_unlock(%s, %s)

-- name: lock_vectors
-- Wait for an advisory lock, which is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s, %s)

-- name: lock_with_others
-- Wait for an advisory lock that others may share, and hold it until the transaction ends.
SELECT pg_advisory_xact_lock_shared(%s, %s)

-- name: lock_vectors_with_others
-- Wait for a shared advisory lock, then for one of its own; both are held until the transaction ends.
SELECT pg_advisory_xact_lock_shared(%s, %s), pg_advisory_xact_lock(%s, %s)

-- name: nearest_vectors
-- The norm of one item vector, and its nearest neighbours among its owner's in its space.
WITH given AS (
    SELECT id, owner_id, space_id, embedding FROM search_itemembedding WHERE id = %(id)s
), others AS MATERIALIZED (
    SELECT e.id, e.source_id, e.item_number, e.chunk_number AS number, 1 - (e.embedding <=> given.embedding) AS similarity
    FROM search_itemembedding AS e, given
    WHERE e.owner_id = given.owner_id AND e.space_id = given.space_id AND e.id <> given.id
    LIMIT %(scanned)s
)
SELECT l2_norm(given.embedding), o.id, s.kind, s.object_id, o.item_number, o.number, o.similarity
FROM given
LEFT JOIN others AS o ON TRUE
LEFT JOIN search_source AS s ON s.id = o.source_id
ORDER BY o.similarity DESC NULLS LAST, o.id
LIMIT %(limit)s

-- name: insert_item_vectors
-- Store the vectors of chunks of some items.
INSERT INTO search_itemembedding
    (owner_id, source_id, space_id, item_number, chunk_number, content_hash, token_count, embedding, created_at)
SELECT %(owner)s, %(source)s, %(space)s, number, chunk_number, content_hash, tokens, embedding::halfvec, now()
FROM unnest(%(numbers)s::int[], %(chunks)s::int[], %(hashes)s::bytea[], %(tokens)s::int[], %(vectors)s::text[])
    AS t (number, chunk_number, content_hash, tokens, embedding)
RETURNING id
