-- name: owner_moments
-- The same as `item_moments` of all items of an owner.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(timestamptz_send(d.created_at), ''::bytea)
FROM search_item AS d
WHERE d.owner_id = %(owner)s

-- name: corpus
-- How many items and words each of the owner's sources of some kinds has; those that contain texts in languages other than
-- English, and these; those with items that may not be in the space yet; and whether a search may miss something: items
-- without vectors, items whose words are not stored, a document that is being read, an import that has not ended. Vectors are
-- those of one space; without a space only words count. Then digests of the owner's blocks of postings by column, whether some
-- items have none, the digest of the blocks of passages, each read from an index alone; and the sources that the filters exclude.
SELECT
    array_agg(s.id) FILTER (WHERE s.is_wanted),
    array_agg(s.item_count) FILTER (WHERE s.is_wanted),
    array_agg(s.spoken_length) FILTER (WHERE s.is_wanted),
    array_agg(s.id) FILTER (WHERE s.is_wanted AND s.languages <> ''),
    array_agg(s.languages) FILTER (WHERE s.is_wanted AND s.languages <> ''),
    array_agg(s.id) FILTER (WHERE s.is_wanted AND s.version > 0 AND (i.id IS NULL OR i.indexed_version <> s.version)),
    coalesce(bool_or(
        s.is_wanted AND s.version > 0
        AND (s.words_missing_from IS NOT NULL OR %(space)s::bigint IS NOT NULL AND (i.id IS NULL OR i.indexed_version <> s.version))
    ), FALSE) OR EXISTS (
        SELECT FROM documents_document AS d
        WHERE d.owner_id = %(owner)s AND d.status IN ('uploaded', 'processing') AND d.trashed_at IS NULL
    ) OR EXISTS (
        SELECT FROM conversations_import AS m
        WHERE m.owner_id = %(owner)s AND m.state IN ('queued', 'running') AND NOT m.is_preview
    ),
    (
        SELECT array_agg(ARRAY[d.home::bigint, d.blocks, d.digest])
        FROM (
            SELECT b.home, count(*) AS blocks, bit_xor(hashint8extended(b.id, 0)) AS digest
            FROM search_postingblock AS b
            WHERE b.owner_id = %(owner)s
            GROUP BY b.home
        ) AS d
    ),
    EXISTS (SELECT FROM search_source AS u WHERE u.owner_id = %(owner)s AND u.unpacked_from IS NOT NULL),
    (
        SELECT ARRAY[count(*), bit_xor(hashint8extended(b.id, 0))]
        FROM search_passageblock AS b
        WHERE b.owner_id = %(owner)s AND b.space_id = %(space)s::bigint AND NOT b.is_kept
    ),
    {left_out}
FROM (
    SELECT *, cardinality(%(kinds)s::text[]) = 0 OR kind = ANY(%(kinds)s::text[]) AS is_wanted
    FROM search_source
    WHERE owner_id = %(owner)s AND item_count > 0
) AS s
LEFT JOIN search_sourceindex AS i ON i.source_id = s.id AND i.space_id = %(space)s::bigint

-- name: other_sources
-- The owner's sources that do not pass the filters, as an array.
(
    SELECT array_agg(e.source_id)
    FROM (SELECT id AS source_id FROM search_source WHERE owner_id = %(owner)s) AS e
    WHERE NOT ({filters})
)

-- name: matching_items
-- The owner's items that pass the filters.
SELECT array_agg(d.source_id), array_agg(d.number)
FROM search_item AS d
WHERE d.owner_id = %(owner)s AND {filters}

-- name: excepted_items
-- The sources and item numbers of the turns that a search excludes, as two arrays.
SELECT array_agg(id), array_agg(number) FROM ({excepted}) AS excepted

-- name: excepted_turns
-- The source and item number of each turn that a search excludes.
SELECT s.id, x.number
FROM unnest(%(excepted_conversations)s::bigint[], %(excepted_numbers)s::int[]) AS x (conversation, number)
INNER JOIN search_source AS s ON s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.object_id = x.conversation

-- name: turns_that_edited
-- The source and item number of each turn that edited a file whose path ends with this one.
SELECT s.id, f.turn_number
FROM conversations_fileedit AS f
INNER JOIN search_source AS s ON s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.object_id = f.conversation_id
WHERE
    f.owner_id = %(owner)s AND f.name = %(file_name)s
    AND (f.path = %(file_path)s OR right(f.path, length(%(file_path)s) + 1) = '/' || %(file_path)s)

-- name: sources_where
-- The owner's sources that meet a condition.
SELECT id FROM search_source WHERE owner_id = %(owner)s AND ({condition})

-- name: query_words
-- The words of a query, their lexemes in English and whether each is a stop word there; the same in the languages of the
-- owner's sources of some kinds, and these languages; and the lexemes of each word behind a mark. Then the same of other
-- forms of the words. Numbers, addresses and the like are the same in all, and have none behind a mark.
WITH spoken AS MATERIALIZED (
    SELECT
        coalesce(array_agg(language), '{}') AS languages,
        array_agg(('convmemory_' || language)::regdictionary) AS stemming,
        array_agg((language || '_stem')::regdictionary) AS stopping
    FROM (
        SELECT DISTINCT language
        FROM search_source AS s, string_to_table(s.languages, ' ') AS language
        WHERE
            s.owner_id = %(owner)s AND s.languages <> ''
            AND (cardinality(%(kinds)s::text[]) = 0 OR s.kind = ANY(%(kinds)s::text[]))
        ORDER BY language
    ) AS spoken
),
words AS (
    -- By the numbers of their types, as in `ts_token_type`: all but blanks, tags, protocols and entities, of which words
    -- and parts of words have stems. `ts_debug` says the same and takes seven times as long.
    SELECT lower(token) AS word, tokid IN (1, 2, 10, 11, 16, 17) AS has_stem, FALSE AS is_form
    FROM ts_parse('default', %(text)s)
    WHERE tokid NOT IN (12, 13, 14, 23)
    UNION ALL
    SELECT form, form !~ '[0-9]', TRUE FROM unnest(%(forms)s::text[]) AS form
)
SELECT
    w.word,
    CASE WHEN w.has_stem THEN (ts_lexize('convmemory_stem', w.word))[1] ELSE w.word END,
    ts_lexize('english_stem', w.word) = '{}',
    ARRAY(SELECT (ts_lexize(dictionary, w.word))[1] FROM unnest(s.stemming) AS dictionary WHERE w.has_stem),
    ARRAY(
        SELECT language FROM unnest(s.languages, s.stopping) AS t (language, dictionary)
        WHERE ts_lexize(dictionary, w.word) = '{}'
    ),
    s.languages,
    CASE WHEN w.has_stem AND NOT w.is_form THEN (ts_lexize('convmemory_stem', %(mark)s || w.word))[1] END,
    ARRAY(
        SELECT (ts_lexize(dictionary, %(mark)s || w.word))[1] FROM unnest(s.stemming) AS dictionary
        WHERE w.has_stem AND NOT w.is_form
    ),
    w.is_form
FROM words AS w, spoken AS s

-- name: lexemes_of_forms
-- The lexemes of words in several dictionaries, and in how many of an owner's titles, and of some items whose postings are not
-- packed yet, each occurs: three arrays, which are read several times as fast as so many rows.
WITH forms AS MATERIALIZED (
    SELECT DISTINCT form, lexemes[1] AS lexeme
    FROM unnest(%(forms)s::text[]) AS form
    CROSS JOIN unnest(%(dictionaries)s::text[]) AS dictionary
    CROSS JOIN LATERAL ts_lexize(dictionary::regdictionary, form) AS lexemes
    WHERE lexemes <> '{}'
),
occurring AS (
    SELECT w.lexeme, count(*) AS count
    FROM (
        SELECT s.title_words AS words
        FROM search_source AS s
        WHERE s.owner_id = %(owner)s AND s.version > 0
        UNION ALL
        (
            SELECT d.spoken || d.unspoken
            FROM search_source AS s
            INNER JOIN search_item AS d ON d.source_id = s.id AND d.owner_id = s.owner_id AND d.number >= s.unpacked_from
            WHERE s.owner_id = %(owner)s AND s.unpacked_from IS NOT NULL
            LIMIT 2000
        )
    ) AS texts
    CROSS JOIN unnest(texts.words) AS w
    WHERE w.lexeme IN (SELECT lexeme FROM forms)
    GROUP BY w.lexeme
)
SELECT array_agg(f.form), array_agg(f.lexeme), array_agg(coalesce(o.count, 0))
FROM forms AS f
LEFT JOIN occurring AS o ON o.lexeme = f.lexeme

-- name: stop_words
-- Those of some words in lower case that are stop words of any language that PostgreSQL has a list of, or inflected.
SELECT word
FROM unnest(%(words)s::text[]) AS word
WHERE EXISTS (
    SELECT 1
    FROM pg_catalog.pg_ts_dict AS d
    CROSS JOIN LATERAL ts_lexize(d.oid::regdictionary, word) AS lexemes
    WHERE
        d.dictnamespace = 'pg_catalog'::regnamespace
        AND (lexemes = '{}' OR ts_lexize(d.oid::regdictionary, lexemes[1]) = '{}')
)
