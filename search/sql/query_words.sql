-- The words of a query, their lexemes in English and whether each is a stop word there; the same in the languages of the
-- owner's sources of some kinds, in their order, and these languages. Numbers, addresses and the like are the same in all.
WITH spoken AS MATERIALIZED (
    SELECT DISTINCT language
    FROM search_source AS s, string_to_table(s.languages, ' ') AS language
    WHERE
        s.owner_id = %(owner)s AND s.languages <> ''
        AND (cardinality(%(kinds)s::text[]) = 0 OR s.kind = ANY(%(kinds)s::text[]))
)
SELECT
    lower(w.token),
    w.lexemes[1],
    ts_lexize('english_stem', lower(w.token)) = '{}',
    ARRAY(
        SELECT (ts_lexize(('convmemory_' || language)::regdictionary, lower(w.token)))[1]
        FROM spoken
        WHERE w.dictionary = 'convmemory_stem'::regdictionary
        ORDER BY language
    ),
    ARRAY(
        SELECT language FROM spoken
        WHERE ts_lexize((language || '_stem')::regdictionary, lower(w.token)) = '{}'
        ORDER BY language
    ),
    ARRAY(SELECT language FROM spoken ORDER BY language)
FROM ts_debug('convmemory', %(text)s) AS w
WHERE w.lexemes <> '{}'
