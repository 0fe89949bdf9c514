-- Why conversations and turns could not be embedded, the most frequent reasons first, without what an endpoint quotes.
SELECT what, reason, count(*) AS times
FROM (
    SELECT 'conversation' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_conversationindex WHERE error <> ''
    UNION ALL
    SELECT 'turn' AS what, left(regexp_replace(error, '“.*”', '“…”'), 160) AS reason FROM search_turndocument WHERE error <> ''
) AS failures
GROUP BY what, reason
ORDER BY times DESC, what, reason
LIMIT %(limit)s
