-- Why sources and items could not be embedded, the most frequent reasons first, without what an endpoint quotes.
SELECT what, reason, count(*) AS times
FROM (
    SELECT 'source' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_sourceindex WHERE error <> ''
    UNION ALL
    SELECT 'item' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_item WHERE error <> ''
) AS failures
GROUP BY what, reason
ORDER BY times DESC, what, reason
LIMIT %(limit)s
