-- Why sources and items could not be embedded, the most frequent reasons first.
SELECT what, reason, count(*) AS times
FROM (
    SELECT 'source' AS what, left(error, 160) AS reason FROM search_sourceindex WHERE error <> ''
    UNION ALL
    SELECT 'item' AS what, left(error, 160) AS reason FROM search_item WHERE error <> ''
) AS failures
GROUP BY what, reason
ORDER BY times DESC, what, reason
LIMIT %(limit)s
