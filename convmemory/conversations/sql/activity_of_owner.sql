-- Messages and characters of an owner's conversations by day, the days in order.
SELECT day.key, sum((day.value ->> 0)::bigint)::bigint, sum((day.value ->> 1)::bigint)::bigint
FROM conversations_figures AS figures
CROSS JOIN LATERAL jsonb_each(figures.days) AS day
WHERE figures.owner_id = %s
GROUP BY day.key
ORDER BY day.key
