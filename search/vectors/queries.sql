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
-- Pack the binary codes of a source's passages in one space, for some blocks of items. How: search/models.py.
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    e.owner_id,
    e.source_id,
    e.space_id,
    e.item_number / %(items)s,
    string_agg(int8send(e.id) || int4send(e.item_number) || int2send(e.kind), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(binary_quantize(e.embedding)) FROM 5), ''::bytea ORDER BY e.id)
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

-- name: nearest_vectors
-- The norm of one stored vector, and its nearest neighbours among its owner's vectors of that table in its space.
WITH given AS (
    SELECT id, owner_id, space_id, embedding FROM {table} WHERE id = %(id)s
), others AS MATERIALIZED (
    SELECT e.id, e.source_id, e.item_number, e.{number} AS number, 1 - (e.embedding <=> given.embedding) AS similarity
    FROM {table} AS e, given
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
-- Insert passages of one source with the token vectors of those that have any. The sequence belongs to the table, or to
-- the tables of all groups of owners.
WITH given AS MATERIALIZED (
    SELECT nextval(coalesce(pg_get_serial_sequence('search_passage', 'id'), 'search_passage_id_seq')) AS id, t.*
    FROM unnest(
        %(elements)s::bigint[], %(hashes)s::uuid[], %(items)s::int[], %(starts)s::int[], %(ends)s::int[],
        %(parts)s::smallint[], %(kinds)s::smallint[], %(token_counts)s::smallint[], %(vectors)s::text[],
        %(tokens)s::bytea[], %(asks)s::boolean[]
    ) AS t (
        element_id, content_hash, item_number, "start", "end", part_index, kind, token_count, embedding, tokens, asks
    )
),
passages AS (
    INSERT INTO search_passage
        (id, owner_id, source_id, element_id, content_hash, space_id, item_number, "start", "end", part_index,
         kind, token_count, embedding, asks)
    SELECT
        id, %(owner)s, %(source)s, element_id, content_hash, %(space)s, item_number, "start", "end", part_index,
        kind, token_count, embedding::halfvec, asks
    FROM given
    RETURNING id
)
INSERT INTO search_tokenvectors (passage_id, owner_id, vectors)
SELECT id, %(owner)s, tokens FROM given WHERE tokens IS NOT NULL
RETURNING passage_id

-- name: equal_passages
-- Vectors of texts that the owner already has as passages in the space.
SELECT DISTINCT ON (p.content_hash) p.content_hash, p.embedding::text, p.token_count, t.vectors
FROM search_passage AS p
LEFT JOIN search_tokenvectors AS t ON t.passage_id = p.id AND t.owner_id = p.owner_id
WHERE p.content_hash = ANY(%s::uuid[]) AND p.owner_id = %s AND p.space_id = %s

-- name: equal_sentences
-- Vectors of texts that the owner already has as passages in some spaces, which have the same sentence model.
SELECT DISTINCT ON (p.content_hash) p.content_hash, p.embedding::text
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
