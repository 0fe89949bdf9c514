-- name: code_blocks
-- The blocks of codes of an owner's vectors with their digest, whether only first parts of so many are read, and the contents
-- of those that are not cached.
WITH amount AS (
    SELECT sum(octet_length(entries)) > %(long_bytes)s AS is_short
    FROM search_binarycodeblock
    WHERE owner_id = %(owner)s AND space_id = %(space)s
)
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    bool_or(amount.is_short),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.source_id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(s.kind ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.entries ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.codes ORDER BY b.id) FILTER (WHERE cached.id IS NULL)
FROM search_binarycodeblock AS b
CROSS JOIN amount
INNER JOIN search_source AS s ON s.id = b.source_id AND s.owner_id = b.owner_id
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s

-- name: whole_codes
-- The whole codes and the token vectors of some passages of one owner, and the vectors of some items, in PostgreSQL's binary
-- form of half precision: each by their ids, in this order.
SELECT p.ids, p.codes, p.tokens, e.ids, e.vectors
FROM (
    SELECT
        array_agg(c.id ORDER BY c.id) AS ids,
        string_agg(c.code, ''::bytea ORDER BY c.id) AS codes,
        array_agg(coalesce(c.tokens, '') ORDER BY c.id) AS tokens
    FROM search_passage AS c
    WHERE c.id = ANY(%(passages)s::bigint[]) AND c.owner_id = %(owner)s
) AS p,
(
    SELECT array_agg(id ORDER BY id) AS ids, string_agg(substring(halfvec_send(embedding) FROM 5), ''::bytea ORDER BY id) AS vectors
    FROM search_itemembedding
    WHERE id = ANY(%(items)s::bigint[]) AND owner_id = %(owner)s
) AS e

-- name: item_vectors_to_pack
-- The vectors of a source's items in one space, for some blocks of items.
SELECT e.id, e.item_number, e.chunk_number, substring(halfvec_send(e.embedding) FROM 5)
FROM search_itemembedding AS e
WHERE
    e.owner_id = %(owner)s AND e.source_id = %(source)s AND e.space_id = %(space)s
    AND e.item_number BETWEEN %(first)s AND %(last)s AND e.item_number / %(items)s = ANY(%(numbers)s)

-- name: pack_codes
-- Pack the codes of a source's passages in one space, and those of its items, which are given, for some blocks of items. How:
-- search/models.py.
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    %(owner)s,
    %(source)s,
    %(space)s,
    e.item_number / %(items)s,
    string_agg(
        int8send(e.id) || int8send(e.element_id) || int4send(e.item_number) || int4send(e."start") || int4send(e."end")
        || int2send(e.part_index::int2) || int2send((e.kind * 256 + e.asks::int - 65536 * (e.kind > 127)::int)::int2),
        ''::bytea ORDER BY e.kind = %(of_item)s, e.id
    ),
    string_agg(substring(e.code FOR %(bytes)s), ''::bytea ORDER BY e.kind = %(of_item)s, e.id)
FROM (
    SELECT p.id, p.element_id, p.item_number, p."start", p."end", p.part_index, p.kind, p.asks, p.code
    FROM search_passage AS p
    WHERE
        p.owner_id = %(owner)s AND p.source_id = %(source)s AND p.space_id = %(space)s
        AND p.item_number BETWEEN %(first)s AND %(last)s AND p.item_number / %(items)s = ANY(%(numbers)s)
    UNION ALL
    SELECT v.id, 0, v.item_number, 0, 0, v.chunk, %(of_item)s, FALSE, v.code
    FROM unnest(%(ids)s::bigint[], %(item_numbers)s::int[], %(chunks)s::int[], %(codes)s::bytea[])
        AS v (id, item_number, chunk, code)
) AS e
GROUP BY e.item_number / %(items)s
RETURNING number

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

-- name: move_passages
-- Renumber the passages of some items of one source in one space; existing passages under the new numbers stay.
UPDATE search_passage AS p
SET item_number = moved.new
FROM unnest(%(old)s::int[], %(new)s::int[]) AS moved (old, new)
WHERE p.source_id = %(source)s AND p.owner_id = %(owner)s AND p.space_id = %(space)s AND p.item_number = moved.old

-- name: insert_passages
-- Insert passages of one source.
INSERT INTO search_passage
    (owner_id, source_id, space_id, element_id, content_hash, item_number, "start", "end", part_index, kind, token_count,
     code, tokens, asks)
SELECT %(owner)s, %(source)s, %(space)s, t.*
FROM unnest(
    %(elements)s::bigint[], %(hashes)s::uuid[], %(items)s::int[], %(starts)s::int[], %(ends)s::int[],
    %(parts)s::smallint[], %(kinds)s::smallint[], %(token_counts)s::smallint[], %(codes)s::bytea[], %(tokens)s::bytea[],
    %(asks)s::boolean[]
) AS t
RETURNING id

-- name: insert_item_vectors
-- Store the vectors of chunks of some items.
INSERT INTO search_itemembedding
    (owner_id, source_id, space_id, item_number, chunk_number, content_hash, token_count, embedding, created_at)
SELECT %(owner)s, %(source)s, %(space)s, number, chunk_number, content_hash, tokens, embedding::halfvec, now()
FROM unnest(%(numbers)s::int[], %(chunks)s::int[], %(hashes)s::bytea[], %(tokens)s::int[], %(vectors)s::text[])
    AS t (number, chunk_number, content_hash, tokens, embedding)
RETURNING id

-- name: equal_passages
-- Codes of texts that the owner already has as passages in the space, also of objects in the trash.
SELECT DISTINCT ON (content_hash) content_hash, code, token_count, tokens
FROM search_passage
WHERE content_hash = ANY(%(digests)s::uuid[]) AND owner_id = %(owner)s AND space_id = %(space)s

-- name: equal_sentences
-- Codes of texts that the owner already has as passages in some spaces, which have the same sentence model.
SELECT DISTINCT ON (p.content_hash) p.content_hash, p.code
FROM search_passage AS p
WHERE p.content_hash = ANY(%s::uuid[]) AND p.owner_id = %s AND p.space_id = ANY(%s)

-- name: token_vectors
-- The ids of some passages of one owner, and their token vectors: two arrays, which are read faster than so many rows.
SELECT array_agg(id), array_agg(coalesce(tokens, ''))
FROM search_passage
WHERE id = ANY(%(ids)s::bigint[]) AND owner_id = %(owner)s
