-- name: posting_blocks
-- The blocks of postings of an owner's items in one column with their digest, and the contents of those that are not cached.
SELECT
    count(*),
    coalesce(bit_xor(hashint8extended(b.id, 0)), 0),
    array_agg(b.id),
    array_agg(b.id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.source_id ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.items ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.words ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.sizes ORDER BY b.id) FILTER (WHERE cached.id IS NULL),
    array_agg(b.postings ORDER BY b.id) FILTER (WHERE cached.id IS NULL)
FROM search_postingblock AS b
LEFT JOIN unnest(%(cached)s::bigint[]) AS cached (id) ON cached.id = b.id
WHERE b.owner_id = %(owner)s AND b.home = %(home)s

-- name: unpacked_occurrences
-- The occurrences of some lexemes in those of an owner's items whose postings are not packed yet: the lexeme's place in the
-- list, the item, its length, the letter of the weight and the count. Each of these items is looked at.
SELECT
    array_agg(place), array_agg(source_id), array_agg(number), array_agg(length), array_agg(letter), array_agg(count)
FROM (
    SELECT
        array_position(%(lexemes)s::text[], w.lexeme) - 1 AS place, d.source_id, d.number, d.length,
        ascii(letter) - ascii('A') AS letter, count(*) AS count
    FROM search_source AS s
    INNER JOIN search_item AS d ON d.source_id = s.id AND d.owner_id = s.owner_id AND d.number >= s.unpacked_from
    CROSS JOIN unnest(d.{column}) AS w
    CROSS JOIN unnest(w.weights) AS letter
    WHERE
        s.owner_id = %(owner)s AND s.unpacked_from IS NOT NULL
        AND d.{column} @@ %(any)s::tsquery AND w.lexeme = ANY(%(lexemes)s::text[])
    GROUP BY d.source_id, d.number, d.length, w.lexeme, letter
) AS found

-- name: pack_postings
-- Pack the postings of both columns of a source's items, for some blocks of items. How: search/models.py.
WITH items AS MATERIALIZED (
    SELECT d.number, d.number / %(items)s AS block, d.length, home.number AS home, home.words
    FROM search_item AS d
    CROSS JOIN LATERAL (VALUES (%(spoken)s, d.spoken), (%(unspoken)s, d.unspoken)) AS home (number, words)
    WHERE
        d.owner_id = %(owner)s AND d.source_id = %(source)s
        AND d.number BETWEEN %(first)s AND %(last)s AND d.number / %(items)s = ANY(%(numbers)s)
),
counted AS (
    SELECT
        i.home,
        i.block,
        w.lexeme COLLATE "C" AS lexeme,
        int2send((256 * (i.number %% %(items)s + %(items)s * letter.place) + cardinality(w.positions))::int2) AS posting
    FROM items AS i
    CROSS JOIN (VALUES (0, '{a}'::"char"[]), (1, '{b}'), (2, '{c}'), (3, '{d}')) AS letter (place, weights)
    CROSS JOIN unnest(ts_filter(i.words, letter.weights)) AS w
),
words AS (
    SELECT
        home,
        block,
        substring(sha256(convert_to(lexeme, 'UTF8')) FROM 1 FOR %(word_bytes)s) AS word,
        substring(int2send(count(*)::int2) FROM 2) AS size,
        string_agg(posting, ''::bytea ORDER BY posting) AS postings
    FROM counted
    GROUP BY home, block, lexeme
)
INSERT INTO search_postingblock (owner_id, source_id, number, home, items, words, sizes, postings)
SELECT %(owner)s, %(source)s, i.block, i.home, i.entries, coalesce(w.words, ''), coalesce(w.sizes, ''), coalesce(w.postings, '')
FROM (
    SELECT home, block, string_agg(int4send(number) || int4send(length), ''::bytea ORDER BY number) AS entries
    FROM items
    GROUP BY home, block
) AS i
LEFT JOIN (
    SELECT
        home,
        block,
        string_agg(word, ''::bytea ORDER BY word) AS words,
        string_agg(size, ''::bytea ORDER BY word) AS sizes,
        string_agg(postings, ''::bytea ORDER BY word) AS postings
    FROM words
    GROUP BY home, block
) AS w USING (home, block)
RETURNING number
