-- The words of a query, their lexemes in the index, and whether each is a stop word.
SELECT lower(token), lexemes[1], ts_lexize('english_stem', lower(token)) = '{}'
FROM ts_debug('convmemory', %s)
WHERE lexemes <> '{}'
