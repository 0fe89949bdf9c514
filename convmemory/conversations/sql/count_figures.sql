-- Counts some of an owner's conversations that changed since they were counted: messages and characters by day, messages by model, calls by tool.
WITH chosen AS (
    SELECT c.id, c.turns_version, c.message_count, c.created_at
    FROM conversations_conversation c
    LEFT JOIN conversations_figures f ON f.owner_id = c.owner_id AND f.conversation_id = c.id
    WHERE c.owner_id = %(owner)s
      AND (f.id IS NULL OR f.turns_version <> c.turns_version OR f.message_count <> c.message_count)
    ORDER BY c.id
    LIMIT %(limit)s
    FOR KEY SHARE OF c
),
elements AS (
    SELECT m.conversation_id, m.id AS message_id, m.model, m.role, part,
           to_char(coalesce(m.created_at, chosen.created_at) AT TIME ZONE %(zone)s, 'YYYY-MM-DD') AS day
    FROM chosen
    JOIN conversations_message m ON m.owner_id = %(owner)s AND m.conversation_id = chosen.id
    CROSS JOIN LATERAL jsonb_array_elements(m.parts) AS part
),
days AS (
    SELECT conversation_id, jsonb_object_agg(day, jsonb_build_array(messages, characters)) AS counted
    FROM (
        SELECT conversation_id, day, count(DISTINCT message_id) AS messages,
               sum(length(coalesce(part ->> 'text', '')) + length(coalesce(part ->> 'input', ''))) AS characters
        FROM elements GROUP BY conversation_id, day
    ) AS by_day GROUP BY conversation_id
),
models AS (
    SELECT conversation_id, jsonb_object_agg(model, messages) AS counted
    FROM (
        SELECT conversation_id, model, count(DISTINCT message_id) AS messages
        FROM elements WHERE role = 'assistant' AND model <> '' GROUP BY conversation_id, model
    ) AS by_model GROUP BY conversation_id
),
tools AS (
    SELECT conversation_id, jsonb_object_agg(tool, calls) AS counted
    FROM (
        SELECT conversation_id, left(part ->> 'name', 200) AS tool, count(*) AS calls
        FROM elements WHERE part ->> 'type' = 'tool_call' AND part ->> 'name' <> '' GROUP BY conversation_id, tool
    ) AS by_tool GROUP BY conversation_id
)
INSERT INTO conversations_figures (owner_id, conversation_id, turns_version, message_count, days, models, tools)
SELECT %(owner)s, chosen.id, chosen.turns_version, chosen.message_count,
       coalesce(days.counted, '{}'), coalesce(models.counted, '{}'), coalesce(tools.counted, '{}')
FROM chosen
LEFT JOIN days ON days.conversation_id = chosen.id
LEFT JOIN models ON models.conversation_id = chosen.id
LEFT JOIN tools ON tools.conversation_id = chosen.id
ON CONFLICT (owner_id, conversation_id) DO UPDATE
SET turns_version = excluded.turns_version, message_count = excluded.message_count,
    days = excluded.days, models = excluded.models, tools = excluded.tools
