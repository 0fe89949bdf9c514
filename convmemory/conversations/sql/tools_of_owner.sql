-- How often an owner's conversations have each of their tools, the most frequent first.
SELECT named.key, sum(named.value::bigint)::bigint AS times
FROM conversations_figures AS figures
CROSS JOIN LATERAL jsonb_each_text(figures.tools) AS named
WHERE figures.owner_id = %s
GROUP BY named.key
ORDER BY times DESC, named.key
LIMIT %s
