-- name: code_blocks
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

-- name: pack_codes
-- Pack the first parts of the codes of a source's passages in one space, for some blocks of items. How: search/models.py.
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    e.owner_id,
    e.source_id,
    e.space_id,
    e.item_number / %(items)s,
    string_agg(
        int8send(e.id) || int4send(e.item_number) || int2send((e.kind * 256 + e.asks::int)::int2), ''::bytea ORDER BY e.id
    ),
    string_agg(substring(e.code FOR %(bytes)s), ''::bytea ORDER BY e.id)
FROM search_passage AS e
WHERE
    e.owner_id = %(owner)s AND e.source_id = %(source)s AND e.space_id = %(space)s
    AND e.item_number BETWEEN %(first)s AND %(last)s AND e.item_number / %(items)s = ANY(%(numbers)s)
GROUP BY e.owner_id, e.source_id, e.space_id, e.item_number / %(items)s
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
-- Insert passages of one source with the token vectors of those that have any. The sequence is the table's, or one that
-- several tables share.
WITH given AS MATERIALIZED (
    SELECT nextval(coalesce(pg_get_serial_sequence('search_passage', 'id'), 'search_passage_id_seq')) AS id, t.*
    FROM unnest(
        %(elements)s::bigint[], %(hashes)s::uuid[], %(items)s::int[], %(starts)s::int[], %(ends)s::int[],
        %(parts)s::smallint[], %(kinds)s::smallint[], %(token_counts)s::smallint[], %(codes)s::bytea[],
        %(tokens)s::bytea[], %(asks)s::boolean[]
    ) AS t (
        element_id, content_hash, item_number, "start", "end", part_index, kind, token_count, code, tokens, asks
    )
),
passages AS (
    INSERT INTO search_passage
        (id, owner_id, source_id, element_id, content_hash, space_id, item_number, "start", "end", part_index,
         kind, token_count, code, asks)
    SELECT
        id, %(owner)s, %(source)s, element_id, content_hash, %(space)s, item_number, "start", "end", part_index,
        kind, token_count, code, asks
    FROM given
    RETURNING id
)
INSERT INTO search_tokenvectors (passage_id, owner_id, vectors)
SELECT id, %(owner)s, tokens FROM given WHERE tokens IS NOT NULL
RETURNING passage_id

-- name: passages_of_items
-- The codes of the passages of some parts of elements of a source in a space: by the place of the part, in the order of the
-- text, with the number of its tokens.
SELECT t.place - 1, p.code, p.token_count
FROM unnest(%(items)s::int[], %(elements)s::bigint[], %(parts)s::smallint[])
    WITH ORDINALITY AS t (item_number, element_id, part_index, place)
INNER JOIN search_passage AS p USING (item_number, element_id, part_index)
WHERE p.owner_id = %(owner)s AND p.source_id = %(source)s AND p.space_id = %(space)s
ORDER BY t.place, p."start"

-- name: insert_item_vectors
-- Store the vectors of chunks of some items and return the id of the last.
WITH stored AS (
    INSERT INTO search_itemembedding
        (owner_id, source_id, space_id, item_number, chunk_number, content_hash, token_count, embedding, created_at)
    SELECT %(owner)s, %(source)s, %(space)s, number, chunk_number, content_hash, tokens, embedding::halfvec, now()
    FROM unnest(%(numbers)s::int[], %(chunks)s::int[], %(hashes)s::bytea[], %(tokens)s::int[], %(vectors)s::text[])
        AS t (number, chunk_number, content_hash, tokens, embedding)
    RETURNING id
)
SELECT max(id) FROM stored

-- name: equal_passages
-- Codes of texts that the owner already has as passages in the space, or that are set aside for objects in the trash.
SELECT DISTINCT ON (content_hash) content_hash, code, token_count, vectors
FROM (
    SELECT p.content_hash, p.code, p.token_count, t.vectors
    FROM search_passage AS p
    LEFT JOIN search_tokenvectors AS t ON t.passage_id = p.id AND t.owner_id = p.owner_id
    WHERE p.content_hash = ANY(%(digests)s::uuid[]) AND p.owner_id = %(owner)s AND p.space_id = %(space)s
    UNION ALL
    SELECT a.content_hash, a.code, a.token_count, a.vectors
    FROM search_setasidepassage AS a
    WHERE a.content_hash = ANY(%(digests)s::uuid[]) AND a.owner_id = %(owner)s AND a.space_id = %(space)s
) AS equal

-- name: equal_sentences
-- Codes of texts that the owner already has as passages in some spaces, which have the same sentence model.
SELECT DISTINCT ON (p.content_hash) p.content_hash, p.code
FROM search_passage AS p
WHERE p.content_hash = ANY(%s::uuid[]) AND p.owner_id = %s AND p.space_id = ANY(%s)

-- name: token_vectors_of_all
-- Token vectors of the passages of some items in a space, if they still cover every token of the text.
SELECT e.id, e.content_hash, e.token_count, k.vectors
FROM search_passage AS e
INNER JOIN search_tokenvectors AS k ON k.passage_id = e.id AND k.owner_id = e.owner_id
WHERE
    e.owner_id = %(owner)s
    AND e.source_id = %(source)s
    AND e.space_id = %(space)s
    AND e.item_number = ANY(%(items)s::int[])
    AND octet_length(k.vectors) = e.token_count * %(width)s

-- name: keep_token_vectors
-- Replace the token vectors of some passages, and delete those that became empty.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(passages)s::bigint[], %(vectors)s::bytea[]) AS t (passage_id, vectors)
),
emptied AS (
    DELETE FROM search_tokenvectors AS k
    USING given
    WHERE k.passage_id = given.passage_id AND k.owner_id = %(owner)s AND octet_length(given.vectors) = 0
)
UPDATE search_tokenvectors AS k
SET vectors = given.vectors
FROM given
WHERE k.passage_id = given.passage_id AND k.owner_id = %(owner)s AND octet_length(given.vectors) > 0

-- name: small_owner_digest
-- Digests of a small owner's current blocks of codes and item vectors, and the number of passages in these blocks.
SELECT b.blocks, b.digest, v.vectors, v.digest, b.passages
FROM (
    SELECT
        count(*) AS blocks,
        coalesce(bit_xor(hashint8extended(id, 0)), 0) AS digest,
        coalesce(sum(octet_length(entries)) / %(entry)s, 0)::bigint AS passages
    FROM search_binarycodeblock
    WHERE owner_id = %(owner)s AND space_id = %(space)s
) AS b,
(
    SELECT count(*) AS vectors, coalesce(bit_xor(hashint8extended(id, 0)), 0) AS digest
    FROM search_itemembedding
    WHERE owner_id = %(owner)s AND space_id = %(space)s
) AS v

-- name: small_owner_passages
-- The current blocks of codes of a small owner, and of those that are not cached all that a search reads of their passages:
-- the kind of the source, and in the order of the items what `search.vectors.small_owners.PASSAGE` describes, the codes,
-- and the token vectors. The items of a block are computed before they are looked up, as in `message_utterances`.
WITH blocks AS MATERIALIZED (
    SELECT
        b.id, b.source_id, b.owner_id, b.space_id, b.number * %(items)s AS first, (b.number + 1) * %(items)s AS after_last,
        b.id = ANY(%(cached)s::bigint[]) AS is_cached
    FROM search_binarycodeblock AS b
    WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s
)
SELECT b.id, s.kind, read.entries, read.codes, read.tokens
FROM blocks AS b
INNER JOIN search_source AS s ON s.id = b.source_id AND s.owner_id = b.owner_id
CROSS JOIN LATERAL (
    SELECT
        string_agg(
            int8send(e.id) || int8send(e.source_id) || int8send(e.element_id) || int4send(e.item_number)
            || int4send(e."start") || int4send(e."end") || int4send(coalesce(octet_length(k.vectors), 0))
            || int2send(e.part_index) || int2send(e.kind) || int2send(e.asks::int::int2),
            ''::bytea ORDER BY e.item_number, e.id
        ),
        string_agg(e.code, ''::bytea ORDER BY e.item_number, e.id),
        coalesce(string_agg(k.vectors, ''::bytea ORDER BY e.item_number, e.id), '')
    FROM search_passage AS e
    LEFT JOIN search_tokenvectors AS k ON k.passage_id = e.id AND k.owner_id = e.owner_id
    WHERE
        NOT b.is_cached AND e.source_id = b.source_id AND e.owner_id = b.owner_id AND e.space_id = b.space_id
        AND e.item_number >= b.first AND e.item_number < b.after_last
) AS read (entries, codes, tokens)
WHERE b.is_cached OR read.entries IS NOT NULL

-- name: small_owner_items
-- The ids of a small owner's item vectors; and of those that are not cached what `search.vectors.small_owners.ITEM_VECTOR`
-- describes, and the vectors.
SELECT
    array_agg(e.id),
    string_agg(
        int8send(e.id) || int8send(e.source_id) || int4send(e.item_number) || int4send(e.chunk_number),
        ''::bytea ORDER BY e.id
    ) FILTER (WHERE cached.id IS NULL),
    string_agg(substring(halfvec_send(e.embedding) FROM 5), ''::bytea ORDER BY e.id) FILTER (WHERE cached.id IS NULL)
FROM search_itemembedding AS e
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = e.id
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s
