-- name: upsert_items
-- Insert or replace the lexical documents of some items of one source, each text with its own configuration.
WITH given AS MATERIALIZED (
    SELECT
        t.*,
        setweight(w.a, 'A') || setweight(w.b, 'B') || setweight(w.s, 'C') AS spoken,
        setweight(w.c, 'C') || setweight(w.d, 'D') AS unspoken
    FROM unnest(
        %(numbers)s::int[], %(opening_ids)s::bigint[], %(headings)s::text[], %(created_at)s::timestamptz[],
        %(hashes)s::bytea[], %(lengths)s::int[], %(A)s::text[], %(B)s::text[], %(C)s::text[], %(D)s::text[],
        %(S)s::text[], %(folded_A)s::text[], %(folded_B)s::text[], %(folded_C)s::text[], %(folded_D)s::text[],
        %(folded_S)s::text[], %(of_A)s::regconfig[], %(of_B)s::regconfig[], %(of_C)s::regconfig[], %(of_D)s::regconfig[],
        %(of_S)s::regconfig[]
    ) AS t (
        number, opening_id, heading, created_at, content_hash, length, a, b, c, d, s,
        folded_a, folded_b, folded_c, folded_d, folded_s, of_a, of_b, of_c, of_d, of_s
    )
    CROSS JOIN LATERAL (
        SELECT
            CASE t.folded_a WHEN '' THEN to_tsvector(t.of_a, t.a) ELSE convmemory_words(t.of_a, t.a, t.folded_a) END AS a,
            CASE t.folded_b WHEN '' THEN to_tsvector(t.of_b, t.b) ELSE convmemory_words(t.of_b, t.b, t.folded_b) END AS b,
            CASE t.folded_c WHEN '' THEN to_tsvector(t.of_c, t.c) ELSE convmemory_words(t.of_c, t.c, t.folded_c) END AS c,
            CASE t.folded_d WHEN '' THEN to_tsvector(t.of_d, t.d) ELSE convmemory_words(t.of_d, t.d, t.folded_d) END AS d,
            CASE t.folded_s WHEN '' THEN to_tsvector(t.of_s, t.s) ELSE convmemory_words(t.of_s, t.s, t.folded_s) END AS s
    ) AS w
)
INSERT INTO search_item
    (owner_id, source_id, number, opening_id, heading, created_at, content_hash, length, error,
     spoken, unspoken)
SELECT
    %(owner)s, %(source)s, number, opening_id, heading, created_at, content_hash, length, '',
    spoken, unspoken
FROM given
ON CONFLICT (source_id, number, owner_id) DO UPDATE SET
    opening_id = EXCLUDED.opening_id,
    heading = EXCLUDED.heading,
    created_at = EXCLUDED.created_at,
    content_hash = EXCLUDED.content_hash,
    length = EXCLUDED.length,
    error = '',
    spoken = EXCLUDED.spoken,
    unspoken = EXCLUDED.unspoken

-- name: postings_lost
-- Sources whose blocks of postings do not belong to their owner, or do not match their items.
WITH stored AS (
    SELECT d.source_id, d.number / %(items)s AS block, count(*) AS items
    FROM search_item AS d
    INNER JOIN search_source AS s ON s.id = d.source_id AND d.number < coalesce(s.unpacked_from, d.number + 1)
    GROUP BY d.source_id, d.number / %(items)s
),
packed AS (
    SELECT
        source_id,
        number AS block,
        min(octet_length(items)) / %(item_bytes)s AS items,
        count(*) = %(homes)s AND min(octet_length(items)) = max(octet_length(items)) AS is_whole,
        min(owner_id) AS least_owner,
        max(owner_id) AS greatest_owner
    FROM search_postingblock
    GROUP BY source_id, number
)
SELECT DISTINCT s.id
FROM stored
FULL JOIN packed USING (source_id, block)
INNER JOIN search_source AS s ON s.id = source_id
WHERE
    stored.items IS DISTINCT FROM packed.items OR NOT packed.is_whole
    OR packed.least_owner <> s.owner_id OR packed.greatest_owner <> s.owner_id

-- name: damaged_items
-- Sources that count as indexed but have items whose vector in the active space is missing, stale or failed.
SELECT d.source_id, min(d.number), count(*)
FROM search_item AS d
INNER JOIN search_sourceindex AS i
    ON i.source_id = d.source_id AND i.space_id = %(space)s AND i.error = ''
INNER JOIN search_source AS s ON s.id = d.source_id AND s.version = i.indexed_version
LEFT JOIN search_itemembedding AS e
    ON e.source_id = d.source_id AND e.space_id = %(space)s AND e.item_number = d.number AND e.chunk_number = 0
WHERE
    CASE
        WHEN d.error <> '' THEN 'failed'
        WHEN e.id IS NULL THEN 'missing'
        WHEN e.content_hash <> d.content_hash THEN 'stale'
    END = ANY(%(defects)s)
    AND s.kind <> ALL(%(without_vectors)s::text[])
    AND (%(owner)s::bigint IS NULL OR s.owner_id = %(owner)s)
    AND (%(source)s::bigint IS NULL OR s.id = %(source)s)
    AND (%(since)s::timestamptz IS NULL OR s.updated_at >= %(since)s)
GROUP BY d.source_id
ORDER BY d.source_id
LIMIT %(limit)s

-- name: index_status
-- How many items of one owner, or of all owners if the owner is null, exist, wait, were given up and failed; the same of
-- documents alone; how many of those that wait are not found by their words either; how many documents are being read
-- and how many imports have not ended; since when the first item waits.
WITH stored AS (
    SELECT
        s.id,
        s.kind = 'document' AS is_document,
        s.version,
        s.item_count,
        s.element_count,
        s.behind_since,
        coalesce(i.passages, 0) AS passages,
        CASE
            WHEN s.version = 0 THEN 0
            WHEN i.id IS NULL THEN s.item_count
            WHEN i.indexed_version = s.version AND i.error = '' THEN 0
            WHEN i.dirty_from IS NOT NULL THEN greatest(s.item_count - i.dirty_from, 0) + (s.item_count = 0)::int
            ELSE s.item_count
        END AS without_vectors,
        coalesce(greatest(s.item_count - s.words_missing_from, 0), 0) AS without_words,
        coalesce(i.error <> '' AND i.attempts >= %(max_attempts)s, FALSE) AS given_up
    FROM search_source AS s
    LEFT JOIN search_sourceindex AS i ON i.source_id = s.id AND i.space_id = %(space)s
    WHERE %(owner)s::bigint IS NULL OR s.owner_id = %(owner)s::bigint
),
state AS (
    SELECT *, greatest(without_vectors, without_words) AS behind FROM stored
)
SELECT
    count(*) FILTER (WHERE version > 0),
    coalesce(sum(item_count), 0),
    coalesce(sum(element_count), 0),
    coalesce(sum(passages), 0),
    coalesce(sum(behind) FILTER (WHERE NOT given_up), 0),
    coalesce(sum(behind) FILTER (WHERE given_up), 0),
    (
        SELECT count(*) FROM search_item AS d
        WHERE (%(owner)s::bigint IS NULL OR d.owner_id = %(owner)s::bigint) AND d.error <> ''
    ),
    coalesce(sum(item_count) FILTER (WHERE is_document), 0),
    coalesce(sum(behind) FILTER (WHERE is_document AND NOT given_up), 0),
    coalesce(sum(behind) FILTER (WHERE is_document AND given_up), 0),
    (
        SELECT count(*)
        FROM search_item AS d
        INNER JOIN search_source AS s ON s.id = d.source_id AND s.kind = 'document'
        WHERE (%(owner)s::bigint IS NULL OR d.owner_id = %(owner)s::bigint) AND d.error <> ''
    ),
    coalesce(sum(without_words), 0),
    (
        SELECT count(*)
        FROM documents_document AS d
        WHERE
            (%(owner)s::bigint IS NULL OR d.owner_id = %(owner)s::bigint)
            AND d.status IN ('uploaded', 'processing') AND d.trashed_at IS NULL
    ),
    (
        SELECT count(*)
        FROM conversations_import AS m
        WHERE
            (%(owner)s::bigint IS NULL OR m.owner_id = %(owner)s::bigint)
            AND m.state IN ('queued', 'running') AND NOT m.is_preview
    ),
    min(behind_since) FILTER (WHERE behind > 0 AND NOT given_up)
FROM state

-- name: indexing_pace
-- How many items of one owner got vectors in the last seconds, and the seconds since the first of them; of the newest vectors.
SELECT count(DISTINCT (source_id, item_number)), coalesce(extract(EPOCH FROM %(now)s::timestamptz - min(created_at)), 0)
FROM (
    SELECT e.source_id, e.item_number, e.created_at
    FROM search_itemembedding AS e
    WHERE e.owner_id = %(owner)s
    ORDER BY e.id DESC
    LIMIT %(rows)s
) AS newest
WHERE created_at > %(now)s::timestamptz - make_interval(secs => %(seconds)s)

-- name: count_orphans
-- Rows of a derived table that are of deleted items.
SELECT count(*)
FROM {table} AS r
INNER JOIN search_source AS s ON s.id = r.source_id
INNER JOIN search_sourceindex AS i ON i.source_id = r.source_id AND i.space_id = %(space)s
WHERE r.{number} >= s.item_count AND i.indexed_version = s.version

-- name: delete_orphans
-- Delete a derived table's rows that are of deleted items.
DELETE FROM {table} AS r
USING search_source AS s, search_sourceindex AS i
WHERE
    s.id = r.source_id AND i.source_id = r.source_id AND i.space_id = %(space)s
    AND r.{number} >= s.item_count AND i.indexed_version = s.version

-- name: lock_index_states
-- Keeps other transactions from changing how far sources are indexed, until the transaction ends.
LOCK TABLE search_sourceindex IN SHARE ROW EXCLUSIVE MODE

-- name: space_laggards
-- Sources that are indexed in the active space and not, or not as far, in another space.
SELECT i.source_id
FROM search_sourceindex AS i
INNER JOIN embeddings_embeddingspace AS active ON active.id = i.space_id AND active.is_active
INNER JOIN search_source AS s ON s.id = i.source_id AND s.version > 0
LEFT JOIN search_sourceindex AS p ON p.source_id = i.source_id AND p.space_id = %(space)s
WHERE p.id IS NULL OR p.error <> '' OR p.indexed_version < i.indexed_version

-- name: take_over_changes
-- Where the active space is behind, let a space that is about to replace it have every item compared, too: what both
-- share, the lexical documents, is behind with it.
UPDATE search_sourceindex AS i
SET indexed_version = least(i.indexed_version, coalesce(active.indexed_version, 0)), dirty_from = 0
FROM search_source AS s
LEFT JOIN search_sourceindex AS active ON active.source_id = s.id AND active.space_id = %(active)s
WHERE
    i.space_id = %(space)s AND s.id = i.source_id
    AND (active.id IS NULL OR active.indexed_version < s.version)

-- name: take_over_refusals
-- Record at the items which of them the model of a space refused, and why.
UPDATE search_item AS d
SET error = refusal.value
FROM search_sourceindex AS p, jsonb_each_text(p.refused) AS refusal
WHERE p.space_id = %(space)s AND d.source_id = p.source_id AND d.number = refusal.key::int

-- name: put_source
-- Insert a source or update its facts; its id and its languages, and whether it is new. The transaction stores the words of
-- its items from the first changed one on (null: of none).
INSERT INTO search_source AS s
    (owner_id, kind, object_id, title, agent, project, origin, archived, created_at, updated_at, item_count,
     element_count, version, spoken_length, words_missing_from, behind_since)
VALUES (
    %(archive_id)s, %(kind)s, %(object_id)s, %(title)s, %(agent)s, %(project)s, %(origin)s, %(archived)s, %(created_at)s,
    %(updated_at)s, %(item_count)s, %(element_count)s, %(version)s, 0,
    CASE WHEN coalesce(%(first)s::int, %(item_count)s) > 0 THEN 0 END,
    CASE WHEN %(version)s > 0 THEN now() END
)
ON CONFLICT (owner_id, kind, object_id) DO UPDATE SET
    title = EXCLUDED.title,
    agent = EXCLUDED.agent,
    project = EXCLUDED.project,
    origin = EXCLUDED.origin,
    archived = EXCLUDED.archived,
    created_at = EXCLUDED.created_at,
    updated_at = EXCLUDED.updated_at,
    item_count = EXCLUDED.item_count,
    element_count = EXCLUDED.element_count,
    version = EXCLUDED.version,
    words_missing_from = CASE
        WHEN %(first)s::int IS NULL AND (EXCLUDED.version, EXCLUDED.item_count) <> (s.version, s.item_count) THEN 0
        WHEN s.words_missing_from < coalesce(%(first)s::int, EXCLUDED.item_count) THEN s.words_missing_from
    END,
    behind_since = CASE WHEN EXCLUDED.version > s.version THEN coalesce(s.behind_since, EXCLUDED.behind_since) ELSE s.behind_since END
RETURNING s.id, s.languages, s.xmax = 0

-- name: mark_changed
-- Record in every space that a source changed from some item on; if an earlier change was not recorded, from the first.
UPDATE search_sourceindex
SET
    seen_version = %(version)s,
    dirty_from = CASE WHEN seen_version = %(version)s - 1 THEN least(coalesce(dirty_from, %(first)s), %(first)s) ELSE 0 END,
    attempts = 0,
    error = ''
WHERE source_id = %(source)s

-- name: rows_past_end
-- Whether a source has words, vectors or passages of items that it no longer has, in any space.
SELECT
    EXISTS (SELECT FROM search_item WHERE owner_id = %(owner)s AND source_id = %(source)s AND number >= %(first)s),
    EXISTS (
        SELECT FROM search_itemembedding WHERE owner_id = %(owner)s AND source_id = %(source)s AND item_number >= %(first)s
    ),
    EXISTS (
        SELECT FROM search_passageblock
        WHERE owner_id = %(owner)s AND source_id = %(source)s AND last_item >= %(first)s AND NOT is_kept
    )

-- name: finish_index
-- Record that a version of a source is indexed in a space, unless another change was noted meanwhile; and whether it is still
-- the current version. While a change waits for the active space, the source is behind.
WITH source AS (
    UPDATE search_source SET
        spoken_length = (
            SELECT coalesce(sum(length), 0) FROM search_item WHERE owner_id = %(owner)s AND source_id = %(source)s
        ),
        behind_since = CASE WHEN version <> %(version)s OR NOT %(is_active)s THEN behind_since END
    WHERE owner_id = %(owner)s AND id = %(source)s
    RETURNING version
)
UPDATE search_sourceindex SET
    indexed_version = %(version)s,
    seen_version = %(version)s,
    dirty_from = NULL,
    last_item = %(last_item)s,
    passages = (
        SELECT coalesce(sum(passages), 0) FROM search_passageblock
        WHERE owner_id = %(owner)s AND source_id = %(source)s AND space_id = %(space)s AND NOT is_kept
    ),
    refused = %(refused)s,
    attempts = 0,
    error = '',
    updated_at = now()
WHERE owner_id = %(owner)s AND id = %(state)s AND seen_version = %(seen_version)s
RETURNING (SELECT version FROM source) = %(version)s
