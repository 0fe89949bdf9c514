-- name: bytes_per_passage
-- Bytes per passage of the table of their blocks, with its index.
SELECT pg_total_relation_size('search_passageblock')::float / greatest(sum(passages), 1) FROM search_passageblock

-- name: embedding_estimate
-- What embedding some sources in a space would take: how many items, how many of them another space has, which ones they are,
-- and how many items the sources have.
WITH todo AS MATERIALIZED (
    SELECT d.source_id, d.number AS item_number
    FROM search_item AS d
    WHERE d.source_id = ANY(%(sources)s) AND NOT EXISTS (
        SELECT FROM search_itemembedding AS e
        WHERE e.source_id = d.source_id AND e.space_id = %(target)s AND e.item_number = d.number
            AND e.content_hash = d.content_hash
    )
)
SELECT
    (SELECT count(*) FROM todo),
    (
        SELECT count(*) FROM todo INNER JOIN search_itemembedding AS e USING (source_id, item_number)
        WHERE e.space_id = %(known)s AND e.chunk_number = 0
    ),
    (SELECT coalesce(array_agg(source_id), '{}') FROM todo),
    (SELECT coalesce(array_agg(item_number), '{}') FROM todo),
    (SELECT count(*) FROM search_item WHERE source_id = ANY(%(sources)s))

-- name: remember_search
-- Store a search of an owner, or that it was used again. Of the other ones that are not saved, delete those that typing it began,
-- within the time between two searches of one text, and the oldest beyond the number that is kept.
WITH others AS MATERIALIZED (
    SELECT
        o.id,
        o.is_begun,
        row_number() OVER (PARTITION BY o.is_begun ORDER BY o.used_at DESC, o.id DESC) AS place
    FROM (
        SELECT
            p.id,
            p.used_at,
            p.used_at > %(now)s - %(typing)s::interval
            AND (starts_with(%(text)s, p.text) OR starts_with(p.text, %(text)s)) AS is_begun
        FROM search_pastsearch AS p
        WHERE p.owner_id = %(owner)s AND p.saved_at IS NULL AND p.address <> %(address)s
    ) AS o
),
gone AS (
    DELETE FROM search_pastsearch AS p
    USING others AS o
    WHERE p.owner_id = %(owner)s AND p.id = o.id AND (o.is_begun OR o.place > %(others)s)
)
INSERT INTO search_pastsearch (owner_id, address, text, used_at)
VALUES (%(owner)s, %(address)s, %(text)s, %(now)s)
ON CONFLICT (owner_id, address) DO UPDATE SET text = excluded.text, used_at = excluded.used_at

-- name: phrases_found
-- By the place of each phrase in the list, how many of some items of one owner contain it.
SELECT p.place - 1, count(d.id)
FROM unnest(%(phrases)s::text[]) WITH ORDINALITY AS p (phrase, place)
LEFT JOIN (
    SELECT i.id, i.spoken, i.unspoken
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
    INNER JOIN search_item AS i USING (source_id, number)
    WHERE i.owner_id = %(owner)s
) AS d ON d.spoken @@ ({phrase}) OR d.unspoken @@ ({phrase})
GROUP BY p.place
ORDER BY p.place

-- name: posting_digest
-- A digest of an owner's current postings of one column, and whether some are not packed yet.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    EXISTS (SELECT FROM search_source AS s WHERE s.owner_id = %(owner)s AND s.unpacked_from IS NOT NULL)
FROM search_postingblock AS b
WHERE b.owner_id = %(owner)s AND b.home = %(home)s

-- name: title_matches
-- The owner's sources that pass the filters and whose title, or whose document's file name, contains all words; those with the
-- fewest other words first, of these the newest.
SELECT e.kind, e.object_id, e.title, e.agent, e.project, e.created_at, e.updated_at, e.item_count
FROM (SELECT s.*, s.id AS source_id FROM search_source AS s WHERE s.owner_id = %(owner)s AND s.version > 0) AS e
LEFT JOIN documents_document AS d ON e.kind = 'document' AND d.id = e.object_id AND d.owner_id = %(owner)s
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN e.title_words @@ %(words)s::tsquery THEN e.title_words
        ELSE to_tsvector('convmemory', convmemory_folded(translate(d.name, '._-', '   ')))
    END AS words
) AS named
WHERE named.words @@ %(words)s::tsquery AND {filters}
ORDER BY length(named.words), e.updated_at DESC, e.source_id DESC
LIMIT %(limit)s

-- name: pending_items
-- How many items of an owner a search may miss, how many of these by their words, too, and how many items there are, by kind,
-- in sources that pass the filters. Without a space only words count. With '' as the kind, how many documents are being read,
-- and how many imports have not ended.
SELECT
    e.kind,
    coalesce(sum(greatest(e.without_vectors, e.without_words)), 0),
    coalesce(sum(e.without_words), 0),
    coalesce(sum(e.item_count), 0)
FROM (
    SELECT
        s.id AS source_id,
        s.kind,
        s.item_count,
        coalesce(greatest(s.item_count - s.words_missing_from, 0), 0) AS without_words,
        CASE
            WHEN %(space)s::bigint IS NULL OR s.kind = ANY(%(without_vectors)s::text[]) THEN 0
            WHEN s.version = 0 OR (i.error <> '' AND i.attempts >= %(max_attempts)s) THEN 0
            WHEN i.id IS NULL THEN s.item_count
            WHEN i.indexed_version = s.version AND i.error = '' THEN 0
            WHEN i.dirty_from IS NOT NULL THEN greatest(s.item_count - i.dirty_from, 0)
            ELSE s.item_count
        END AS without_vectors
    FROM search_source AS s
    LEFT JOIN search_sourceindex AS i ON i.source_id = s.id AND i.space_id = %(space)s::bigint
    WHERE s.owner_id = %(owner)s
) AS e
WHERE {filters}
GROUP BY e.kind
UNION ALL
SELECT
    '',
    (
        SELECT count(*) FROM documents_document AS d
        WHERE
            d.owner_id = %(owner)s AND d.status IN ('uploaded', 'processing') AND d.trashed_at IS NULL
            AND (%(documents)s::bigint[] IS NULL OR d.id = ANY(%(documents)s::bigint[]))
    ),
    (
        SELECT count(*) FROM conversations_import AS m
        WHERE m.owner_id = %(owner)s AND m.state IN ('queued', 'running') AND NOT m.is_preview
    ),
    0
ORDER BY 1

-- name: passes_any
-- Whether an owner has any item of some kinds, and whether any item passes the filters.
SELECT
    EXISTS (
        SELECT FROM search_source AS s
        WHERE
            s.owner_id = %(owner)s AND s.item_count > 0
            AND (cardinality(%(kinds)s::text[]) = 0 OR s.kind = ANY(%(kinds)s::text[]))
    ),
    EXISTS (SELECT FROM search_item AS d WHERE d.owner_id = %(owner)s AND {filters})

-- name: make_word_functions
-- A text as `convmemory.core.folding.folded` folds it; a test compares them. Then the words of a text, and at the same
-- positions the folded ones of the same text with folded forms in it. A stored column is computed by them.
CREATE OR REPLACE FUNCTION convmemory_folded(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN octet_length($1) = char_length($1) THEN lower($1) ELSE (
    SELECT CASE WHEN octet_length(plain) = char_length(plain) THEN plain ELSE
        CASE WHEN plain !~ E'[\u00df-\u0153\u0167\u0259\u0491\u0629-\u06ff\u02bb-\u03c2\u0966-\u09ef\u2010\u2019]' THEN normalize(plain, NFC) ELSE
        translate(
            replace(replace(replace(replace(
                normalize(plain, NFC), E'\u00df', 'ss'), E'\u00e6', 'ae'), E'\u0153', 'oe'), E'\u00fe', 'th'
            ),
            E'\u00f8\u0142\u0111\u00f0\u0131\u0127\u0167\u014b\u0259\u0491\u0649\u06cc\u06a9\u0629\u0671\u03c2\u2010\u2019\u02bc'
            '\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u06f0\u06f1\u06f2\u06f3\u06f4\u06f5\u06f6\u06f7\u06f8\u06f9'
            '\u0966\u0967\u0968\u0969\u096a\u096b\u096c\u096d\u096e\u096f\u09e6\u09e7\u09e8\u09e9\u09ea\u09eb\u09ec\u09ed\u09ee\u09ef\u02bb',
            E'olddihtne\u0433\u064a\u064a\u0643\u0647\u0627\u03c3-''''0123456789012345678901234567890123456789'
        )
        END
    END
    FROM (
        SELECT lower(regexp_replace(
            normalize($1, NFKD),
            E'[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164'
            '\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff'
            '\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0655\u0670'
            '\u0300-\u0305\u0307-\u036f\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc]+|(?<![\u0438\u0418])\u0306',
            '', 'g'
        )) AS plain
    ) AS decomposed
) END;

CREATE OR REPLACE FUNCTION convmemory_words(regconfig, text, text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    SELECT concat_ws(
        ' ',
        to_tsvector($1, $2),
        string_agg(quote_literal(lexeme) || ':' || array_to_string(positions, ','), ' ')
    )::tsvector
    FROM unnest(to_tsvector($1, $3))
    WHERE lexeme ^@ E'\u01bf'
)
