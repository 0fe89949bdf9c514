-- name: date_messages
-- Date the undated messages of one conversation: by the first event of their turn, else by the nearest dated message,
-- else by when the conversation began. A message shares `since` with the dated one before it, `until` with the one after.
WITH first_event AS (
    SELECT e.turn_number, min(e.created_at) AS at
    FROM conversations_event AS e
    WHERE e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.turn_number IS NOT NULL
    GROUP BY e.turn_number
),
counted AS (
    SELECT
        m.id, m."position", m.turn_number, m.created_at,
        count(m.created_at) OVER (ORDER BY m."position") AS since,
        count(m.created_at) OVER (ORDER BY m."position" DESC) AS until
    FROM conversations_message AS m
    WHERE m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
),
placed AS (
    SELECT
        c.id, c.turn_number, c.created_at,
        max(c.created_at) OVER (PARTITION BY c.since) AS before,
        max(c.created_at) OVER (PARTITION BY c.until) AS after,
        c."position" - max(c."position") FILTER (WHERE c.created_at IS NOT NULL) OVER (PARTITION BY c.since) AS back,
        max(c."position") FILTER (WHERE c.created_at IS NOT NULL) OVER (PARTITION BY c.until) - c."position" AS ahead
    FROM counted AS c
),
dated AS (
    SELECT
        p.id,
        coalesce(
            f.at, CASE WHEN p.ahead < p.back THEN p.after ELSE coalesce(p.before, p.after) END, %(begun)s
        ) AS at
    FROM placed AS p
    LEFT JOIN first_event AS f ON f.turn_number = p.turn_number
    WHERE p.created_at IS NULL
)
UPDATE conversations_message AS m
SET created_at = dated.at
FROM dated
WHERE m.id = dated.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s

-- name: set_event_turns
-- Set the turn numbers of the given lines of one conversation's event log, where they differ.
UPDATE conversations_event AS e
SET turn_number = v.turn_number
FROM unnest(%(lines)s::int[], %(turns)s::int[]) AS v (line_number, turn_number)
WHERE
    e.owner_id = %(owner)s AND e.conversation_id = %(conversation)s AND e.line_number = v.line_number
    AND e.turn_number IS DISTINCT FROM v.turn_number

-- name: set_positions
-- Set the positions of the given messages of one conversation; the unique constraint is checked at commit.
UPDATE conversations_message AS m
SET position = v.position
FROM unnest(%(messages)s::bigint[], %(positions)s::int[]) AS v (id, position)
WHERE m.id = v.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s

-- name: insert_messages
-- Insert messages of one conversation, given as one JSON array, in the order of their positions; returns their ids.
INSERT INTO conversations_message (
    owner_id, conversation_id, position, role, is_real_user, superseded, name, model, parts, source_key, content_hash,
    created_at, turn_number, usage, outcome
)
SELECT
    %(owner)s, %(conversation)s, v.position, v.role, v.is_real_user, v.superseded, v.name, v.model, v.parts,
    v.source_key, decode(v.content_hash, 'hex'), v.created_at, v.turn_number, v.usage, v.outcome
FROM jsonb_to_recordset(%(messages)s::jsonb) AS v (
    position int, role text, is_real_user bool, superseded bool, name text, model text, parts jsonb, source_key text,
    content_hash text, created_at timestamptz, turn_number int, usage jsonb, outcome jsonb
)
ORDER BY v.position
RETURNING position, id

-- name: insert_message_sources
-- Store the raw source lines of messages, given as one JSON array.
INSERT INTO conversations_messagesource (message_id, owner_id, data)
SELECT v.message, %(owner)s, decode(v.data, 'base64')
FROM jsonb_to_recordset(%(sources)s::jsonb) AS v (message bigint, data text)
RETURNING message_id

-- name: set_turn_numbers
-- Set the turn numbers of the given messages of one conversation.
UPDATE conversations_message AS m
SET turn_number = v.turn_number
FROM unnest(%(messages)s::bigint[], %(turns)s::int[]) AS v (id, turn_number)
WHERE m.id = v.id AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s

-- name: set_outcomes
-- Set the outcomes of turns, given as one JSON array, at the messages of one conversation that open them; and the edits
-- of files in its turns from one turn on, likewise. With no turn, no edit is replaced.
WITH dropped AS (
    DELETE FROM conversations_fileedit
    WHERE owner_id = %(owner)s AND conversation_id = %(conversation)s AND turn_number >= %(from_turn)s
),

added AS (
    INSERT INTO conversations_fileedit (
        owner_id, conversation_id, message_id, part, turn_number, path, name, created_at
    )
    SELECT %(owner)s, %(conversation)s, v.message, v.part, v.turn, v.path, v.name, v.created_at
    FROM jsonb_to_recordset(%(edits)s::jsonb) AS v (
        message bigint, part int, turn int, path text, name text, created_at timestamptz
    )
    RETURNING id
)

UPDATE conversations_message AS m
SET outcome = v.outcome
FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS v (message bigint, outcome jsonb)
WHERE
    m.id = v.message AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
    AND m.outcome IS DISTINCT FROM v.outcome

-- name: set_usages
-- Set the usages of messages of one conversation, given as one JSON array; its statistics are counted again.
WITH recounted AS (
    UPDATE conversations_figures SET hours = NULL
    WHERE owner_id = %(owner)s AND conversation_id = %(conversation)s
)

UPDATE conversations_message AS m
SET usage = v.usage
FROM jsonb_to_recordset(%(usages)s::jsonb) AS v (message bigint, usage jsonb)
WHERE m.id = v.message AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s

-- name: stored_messages
-- The owner's messages that meet a condition, as `StoredMessage` has their fields, in order, without superseded ones. How
-- messages without a turn are placed: `with_home_turns`.
SELECT
    m.id, home.turn, m.role, m.is_real_user, m.name, m.parts, m.created_at, m."position", m.content_hash,
    m.turn_number IS NOT NULL, m.turn_number IS NULL AND c.turn_count > 0
FROM conversations_message AS m
INNER JOIN conversations_conversation AS c ON c.id = m.conversation_id
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN m.turn_number IS NOT NULL THEN m.turn_number
        WHEN c.turn_count = 0 THEN 0
        WHEN m."position" < (
            SELECT f."position" FROM conversations_message AS f
            WHERE f.owner_id = m.owner_id AND f.conversation_id = m.conversation_id AND f.turn_number = 0
            ORDER BY f."position" LIMIT 1
        ) THEN 0
        ELSE c.turn_count - 1
    END
) AS home (turn)
WHERE m.owner_id = %(owner)s AND NOT m.superseded AND {condition}
ORDER BY m."position"

-- name: facts_of_conversation
-- The tags of a conversation of one owner, the number of its hidden keys, and the marks of its turns as [turn, kind, note].
SELECT
    ARRAY(
        SELECT t.name FROM conversations_tag AS t
        WHERE t.owner_id = %(owner)s AND t.conversation_id = %(conversation)s
        ORDER BY t.name
    ),
    (
        SELECT count(*) FROM conversations_hiddenkey AS k
        INNER JOIN conversations_message AS m ON m.id = k.message_id
        WHERE k.owner_id = %(owner)s AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
    ),
    (
        SELECT coalesce(jsonb_agg(jsonb_build_array(m.turn_number, k.kind, k.note) ORDER BY k.kind), '[]')
        FROM conversations_turnmark AS k
        INNER JOIN conversations_message AS m ON m.id = k.message_id
        WHERE
            k.owner_id = %(owner)s AND m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s
            AND m.turn_number IS NOT NULL
    )

-- name: outline
-- The question that opens each turn of a conversation, from one turn on, shortened.
SELECT DISTINCT ON (turn_number)
       turn_number,
       coalesce(left(jsonb_path_query_first(parts, '$[*] ? (@.type == "text").text') #>> '{}', 400), '')
FROM conversations_message
WHERE owner_id = %s AND conversation_id = %s AND is_real_user AND turn_number >= %s
ORDER BY turn_number, position
LIMIT %s

-- name: turns_with_outcomes
-- Of some turns of one owner: title, agent and folders of the conversation, the question, shortened, and the outcome.
SELECT DISTINCT ON (m.conversation_id, m.turn_number)
    m.conversation_id, m.turn_number, c.title, c.agent, c.project, c.worktree, coalesce(m.created_at, c.updated_at),
    coalesce(left(jsonb_path_query_first(m.parts, '$[*] ? (@.type == "text").text') #>> '{}', 400), ''), m.outcome
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS v (conversation, turn)
INNER JOIN conversations_conversation AS c ON c.owner_id = %(owner)s AND c.id = v.conversation
INNER JOIN conversations_message AS m
    ON m.owner_id = %(owner)s AND m.conversation_id = v.conversation AND m.turn_number = v.turn
WHERE NOT m.superseded
ORDER BY m.conversation_id, m.turn_number, m.is_real_user DESC, m."position"

-- name: matching_events
-- The events of one owner that contain all words of a query. The index knows the owner as a word (core/postgres/fields.py).
SELECT e.id
FROM conversations_event AS e
WHERE (array_to_tsvector(ARRAY['owner ' || e.owner_id::text]) || e.words) @@ (%s::tsquery && %s::tsquery)

-- name: take_idle
-- Mark one owner's idle conversation as processing, with room for a question at its end; the question's position.
UPDATE conversations_conversation
SET
    message_count = message_count + 1,
    updated_at = greatest(updated_at, %(asked_at)s),
    title = CASE title WHEN '' THEN %(title)s ELSE title END,
    status = 'processing',
    processing_until = %(until)s
WHERE id = %(conversation)s AND owner_id = %(owner)s AND status <> 'processing' AND trashed_at IS NULL
RETURNING message_count - 1

-- name: count_figures
-- Count some of an owner's conversations that changed since they were counted: messages and characters by day, messages
-- by weekday and hour, answers and tokens by model and month, calls by tool. A request's tokens count once. Models and tools
-- beyond the most frequent ones have no name of their own: a value of JSON has a limit. Returns which.
WITH chosen AS (
    SELECT c.id, c.turns_version, c.message_count, c.created_at
    FROM conversations_conversation c
    LEFT JOIN conversations_figures f ON f.owner_id = c.owner_id AND f.conversation_id = c.id
    WHERE c.owner_id = %(owner)s AND c.trashed_at IS NULL
      AND (
        f.hours IS NULL OR f.points IS NULL
        OR f.turns_version <> c.turns_version OR f.message_count <> c.message_count
      )
    ORDER BY c.id
    LIMIT %(limit)s
    FOR KEY SHARE OF c
),
elements AS (
    SELECT m.conversation_id, m.id AS message_id, part,
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
hours AS (
    SELECT conversation_id, jsonb_object_agg(hour, messages) AS counted
    FROM (
        SELECT m.conversation_id, to_char(m.created_at AT TIME ZONE %(zone)s, 'ID-HH24') AS hour, count(*) AS messages
        FROM chosen
        JOIN conversations_message m ON m.owner_id = %(owner)s AND m.conversation_id = chosen.id
        WHERE m.created_at IS NOT NULL
        GROUP BY m.conversation_id, hour
    ) AS by_hour GROUP BY conversation_id
),
answers AS (
    SELECT m.conversation_id, m.model, m.usage IS NOT NULL AS is_reported,
           to_char(coalesce(m.created_at, chosen.created_at) AT TIME ZONE %(zone)s, 'YYYY-MM') AS month,
           coalesce((m.usage ->> 'input')::bigint, 0) AS input, coalesce((m.usage ->> 'output')::bigint, 0) AS output,
           coalesce((m.usage ->> 'cached')::bigint, 0) AS cached,
           row_number() OVER (
               PARTITION BY m.conversation_id, coalesce(m.usage ->> 'request', m.id::text)
               ORDER BY (m.usage ->> 'output')::bigint DESC NULLS LAST, m.id
           ) = 1 AS counts
    FROM chosen
    JOIN conversations_message m ON m.owner_id = %(owner)s AND m.conversation_id = chosen.id
    WHERE m.role = 'assistant'
),
names AS (
    SELECT conversation_id, model, row_number() OVER (PARTITION BY conversation_id ORDER BY count(*) DESC, model) AS rank
    FROM answers GROUP BY conversation_id, model
),
models AS (
    SELECT conversation_id, jsonb_object_agg(model, months) AS counted
    FROM (
        SELECT conversation_id, model, jsonb_object_agg(month, sums) AS months
        FROM (
            SELECT conversation_id, CASE WHEN rank <= %(names)s THEN model ELSE '' END AS model, month, jsonb_build_array(
                count(*), count(*) FILTER (WHERE is_reported), coalesce(sum(input) FILTER (WHERE counts), 0),
                coalesce(sum(output) FILTER (WHERE counts), 0), coalesce(sum(cached) FILTER (WHERE counts), 0)
            ) AS sums
            FROM answers JOIN names USING (conversation_id, model) GROUP BY 1, 2, 3
        ) AS by_month GROUP BY conversation_id, model
    ) AS by_model GROUP BY conversation_id
),
tools AS (
    SELECT conversation_id, jsonb_object_agg(tool, calls) AS counted
    FROM (
        SELECT conversation_id, left(part ->> 'name', 200) AS tool, count(*) AS calls,
               row_number() OVER (PARTITION BY conversation_id ORDER BY count(*) DESC, left(part ->> 'name', 200)) AS rank
        FROM elements WHERE part ->> 'type' = 'tool_call' AND part ->> 'name' <> '' GROUP BY conversation_id, tool
    ) AS by_tool WHERE rank <= %(names)s GROUP BY conversation_id
)
INSERT INTO conversations_figures (owner_id, conversation_id, turns_version, message_count, days, hours, models, tools)
SELECT %(owner)s, chosen.id, chosen.turns_version, chosen.message_count, coalesce(days.counted, '{}'),
       coalesce(hours.counted, '{}'), coalesce(models.counted, '{}'), coalesce(tools.counted, '{}')
FROM chosen
LEFT JOIN days ON days.conversation_id = chosen.id
LEFT JOIN hours ON hours.conversation_id = chosen.id
LEFT JOIN models ON models.conversation_id = chosen.id
LEFT JOIN tools ON tools.conversation_id = chosen.id
ON CONFLICT (owner_id, conversation_id) DO UPDATE
SET turns_version = excluded.turns_version, message_count = excluded.message_count,
    days = excluded.days, hours = excluded.hours, models = excluded.models, tools = excluded.tools
RETURNING conversation_id

-- name: figures_of_owner
-- What is counted of an owner's conversations, summed: characters by month, messages by weekday and hour, calls by tool,
-- answers and tokens by month, model and program. Of tools, models and programs the largest.
WITH answers AS MATERIALIZED (
    SELECT
        CASE c.agent WHEN '' THEN c.source ELSE c.agent END AS program, model.key AS model, month.key AS month,
        sum((month.value ->> 0)::bigint) AS answers, sum((month.value ->> 1)::bigint) AS reported,
        sum((month.value ->> 2)::bigint) AS input, sum((month.value ->> 3)::bigint) AS output,
        sum((month.value ->> 4)::bigint) AS cached
    FROM conversations_figures AS f
    INNER JOIN conversations_conversation AS c ON c.owner_id = f.owner_id AND c.id = f.conversation_id
    CROSS JOIN LATERAL jsonb_each(f.models) AS model
    CROSS JOIN LATERAL jsonb_each(model.value) AS month
    WHERE f.owner_id = %(owner)s AND f.hours IS NOT NULL
    GROUP BY program, model.key, month.key
)

SELECT 'characters' AS kind, left(day.key, 7) AS name, sum((day.value ->> 1)::bigint)::bigint AS count,
    0::bigint AS reported, 0::bigint AS input, 0::bigint AS output, 0::bigint AS cached
FROM conversations_figures AS f
CROSS JOIN LATERAL jsonb_each(f.days) AS day
WHERE f.owner_id = %(owner)s AND f.hours IS NOT NULL
GROUP BY 2
UNION ALL
SELECT 'hour', hour.key, sum(hour.value::bigint)::bigint, 0, 0, 0, 0
FROM conversations_figures AS f
CROSS JOIN LATERAL jsonb_each(f.hours) AS hour
WHERE f.owner_id = %(owner)s
GROUP BY 2
UNION ALL
(
    SELECT 'tool', tool.key, sum(tool.value::bigint)::bigint, 0, 0, 0, 0
    FROM conversations_figures AS f
    CROSS JOIN LATERAL jsonb_each(f.tools) AS tool
    WHERE f.owner_id = %(owner)s AND f.hours IS NOT NULL
    GROUP BY 2
    ORDER BY 3 DESC, 2
    LIMIT %(shown)s
)
UNION ALL
SELECT
    'month', month, sum(answers)::bigint, sum(reported)::bigint, sum(input)::bigint, sum(output)::bigint,
    sum(cached)::bigint
FROM answers
GROUP BY 2
UNION ALL
(
    SELECT
        'model', model, sum(answers)::bigint, sum(reported)::bigint, sum(input)::bigint, sum(output)::bigint,
        sum(cached)::bigint
    FROM answers
    WHERE model <> ''
    GROUP BY 2
    ORDER BY 3 DESC, 2
    LIMIT %(shown)s
)
UNION ALL
(
    SELECT
        'program', program, sum(answers)::bigint, sum(reported)::bigint, sum(input)::bigint, sum(output)::bigint,
        sum(cached)::bigint
    FROM answers
    GROUP BY 2
    HAVING sum(reported) > 0
    ORDER BY sum(input) + sum(output) DESC, 2
    LIMIT %(shown)s
)

-- name: messages_by_time
-- Messages of an owner's conversations by month or day (the first characters of the day) and project, program or archive,
-- without archived conversations and the trash; by archive also those of all spaces of the person who acts. A conversation
-- that names no agent counts for its source, as in the filter. Of all times (first: ""), the period "" has the number of
-- conversations that changed since they were counted, by archive.
SELECT
    left(day.key, %(chars)s) AS period,
    CASE %(by)s
        WHEN 'project' THEN c.project
        WHEN 'program' THEN CASE c.agent WHEN '' THEN c.source ELSE c.agent END
        ELSE f.owner_id::text
    END AS band,
    sum((day.value ->> 0)::bigint)::bigint
FROM conversations_figures AS f
INNER JOIN conversations_conversation AS c ON c.owner_id = f.owner_id AND c.id = f.conversation_id
CROSS JOIN LATERAL jsonb_each(f.days) AS day
WHERE
    f.owner_id = %(owner)s AND c.trashed_at IS NULL AND c.archived_at IS NULL
    AND day.key COLLATE "C" BETWEEN %(first)s AND %(last)s
GROUP BY period, band
UNION ALL
SELECT '', c.owner_id::text, count(*)
FROM conversations_conversation AS c
LEFT JOIN conversations_figures AS f
    ON f.owner_id = c.owner_id AND f.conversation_id = c.id
    AND f.turns_version = c.turns_version AND f.message_count = c.message_count
    AND f.hours IS NOT NULL AND f.points IS NOT NULL
WHERE c.owner_id = %(owner)s AND c.trashed_at IS NULL AND f.id IS NULL AND %(first)s = ''
GROUP BY c.owner_id
UNION ALL
SELECT s.period, s.space_id::text, s.messages
FROM convmemory_messages_of_spaces(%(chars)s, %(first)s, %(last)s) AS s
WHERE %(by)s = 'space'

-- name: worked_on
-- The conversations of an owner with the most messages in a period, with their number, and of each the last turn then
-- that has an outcome, and the files that it changed most. Without archived conversations and the trash.
WITH active AS (
    SELECT
        c.id, c.title, CASE c.agent WHEN '' THEN c.source ELSE c.agent END AS program, c.project,
        counted.messages, counted.last_day, count(*) OVER () AS conversations
    FROM conversations_conversation AS c
    INNER JOIN conversations_figures AS f ON f.owner_id = c.owner_id AND f.conversation_id = c.id
    CROSS JOIN LATERAL (
        SELECT sum((day.value ->> 0)::bigint)::bigint AS messages, max(day.key) AS last_day
        FROM jsonb_each(f.days) AS day
        WHERE day.key COLLATE "C" BETWEEN %(first)s AND %(last)s
    ) AS counted
    WHERE
        c.owner_id = %(owner)s AND c.updated_at >= %(begin)s AND c.trashed_at IS NULL AND c.archived_at IS NULL
        AND counted.messages > 0
    ORDER BY counted.messages DESC, c.id
    LIMIT %(limit)s
)

SELECT
    a.id, a.title, a.program, a.project, a.messages, a.last_day, ended.turn_number, ended.outcome,
    ARRAY(
        SELECT e.path
        FROM conversations_fileedit AS e
        WHERE
            e.owner_id = %(owner)s AND e.conversation_id = a.id
            AND e.created_at >= %(begin)s AND e.created_at < %(end)s
        GROUP BY e.path
        ORDER BY count(*) DESC, e.path
        LIMIT %(files)s
    ),
    a.conversations
FROM active AS a
LEFT JOIN LATERAL (
    SELECT m.turn_number, m.outcome
    FROM conversations_message AS m
    WHERE
        m.owner_id = %(owner)s AND m.conversation_id = a.id AND m.outcome IS NOT NULL AND NOT m.superseded
        AND m.turn_number IS NOT NULL
        AND coalesce(m.created_at >= %(begin)s AND m.created_at < %(end)s, true)
    ORDER BY m."position" DESC
    LIMIT 1
) AS ended ON true
ORDER BY a.messages DESC, a.id

-- name: points_in_time
-- The newest starred conversations, marked turns and turns with a decision of an owner in a period, each with the number of
-- its kind, without archived conversations and the trash.
SELECT p.kind, p.id, p.turn_number, p.title, p.note, p.at, p.total
FROM (
    (
        SELECT
            'star' AS kind, c.id, NULL::int AS turn_number, c.title, '' AS note, c.updated_at AS at,
            count(*) OVER () AS total
        FROM conversations_conversation AS c
        WHERE
            c.owner_id = %(owner)s AND c.starred_at IS NOT NULL AND c.trashed_at IS NULL AND c.archived_at IS NULL
            AND c.updated_at >= %(begin)s AND c.updated_at < %(end)s
        ORDER BY c.updated_at DESC
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT
            k.kind, c.id, m.turn_number, c.title, k.note, coalesce(m.created_at, c.updated_at) AS at,
            count(*) OVER () AS total
        FROM conversations_turnmark AS k
        INNER JOIN conversations_message AS m ON m.owner_id = k.owner_id AND m.id = k.message_id
        INNER JOIN conversations_conversation AS c ON c.owner_id = m.owner_id AND c.id = m.conversation_id
        WHERE
            k.owner_id = %(owner)s AND m.turn_number IS NOT NULL AND c.trashed_at IS NULL AND c.archived_at IS NULL
            AND coalesce(m.created_at, c.updated_at) >= %(begin)s AND coalesce(m.created_at, c.updated_at) < %(end)s
        ORDER BY at DESC
        LIMIT %(limit)s
    )
    UNION ALL
    (
        SELECT
            d.kind, c.id, d.turn, c.title, d.note, coalesce(d.at, c.updated_at) AS at, count(*) OVER () AS total
        FROM conversations_figures AS f
        INNER JOIN conversations_conversation AS c ON c.owner_id = f.owner_id AND c.id = f.conversation_id
        CROSS JOIN LATERAL jsonb_to_recordset(f.points) AS d (kind text, turn int, note text, at timestamptz)
        WHERE
            f.owner_id = %(owner)s AND (f.points -> 0) IS NOT NULL AND f.turns_version = c.turns_version
            AND c.trashed_at IS NULL AND c.archived_at IS NULL
            AND coalesce(d.at, c.updated_at) >= %(begin)s AND coalesce(d.at, c.updated_at) < %(end)s
        ORDER BY at DESC
        LIMIT %(limit)s
    )
) AS p
ORDER BY p.at DESC, p.id DESC

-- name: count_stored
-- Add to the sums of a space or a person: what their archive stores, and (`added_…`) what the person added to spaces. No row
-- if something grows past its limit (null: none). `ahead` turns are not counted yet, but there must be room for them. Adds
-- to the bytes of a conversation, too, and sets what persons have added to it in a space.
WITH changed AS (
    UPDATE conversations_conversation AS c SET
        stored_bytes = CASE WHEN c.stored_bytes IS NOT NULL THEN greatest(c.stored_bytes + %(size)s, 0) END,
        additions = coalesce(%(additions)s::jsonb, c.additions)
    WHERE
        c.id = %(conversation)s AND c.owner_id = %(owner)s
        AND (c.stored_bytes IS NOT NULL OR %(additions)s::jsonb IS NOT NULL)
)
INSERT INTO conversations_storeduse AS u
    (owner_id, stored_bytes, turns, documents, added_bytes, added_turns, added_documents)
SELECT
    %(owner)s, greatest(%(size)s, 0), greatest(%(turns)s, 0), greatest(%(documents)s, 0),
    greatest(%(added_size)s, 0), greatest(%(added_turns)s, 0), greatest(%(added_documents)s, 0)
WHERE
    coalesce(%(size)s + %(added_size)s <= %(max_bytes)s::bigint, true)
    AND coalesce(%(turns)s + %(added_turns)s + %(ahead)s <= %(max_turns)s::bigint, true)
    AND coalesce(%(documents)s + %(added_documents)s <= %(max_documents)s::bigint, true)
ON CONFLICT (owner_id) DO UPDATE SET
    stored_bytes = greatest(u.stored_bytes + %(size)s, 0),
    turns = greatest(u.turns + %(turns)s, 0),
    documents = greatest(u.documents + %(documents)s, 0),
    added_bytes = greatest(u.added_bytes + %(added_size)s, 0),
    added_turns = greatest(u.added_turns + %(added_turns)s, 0),
    added_documents = greatest(u.added_documents + %(added_documents)s, 0)
WHERE
    (
        %(size)s + %(added_size)s <= 0
        OR coalesce(u.stored_bytes + u.added_bytes + %(size)s + %(added_size)s <= %(max_bytes)s::bigint, true)
    )
    AND (
        %(turns)s + %(added_turns)s + %(ahead)s <= 0
        OR coalesce(u.turns + u.added_turns + %(turns)s + %(added_turns)s + %(ahead)s <= %(max_turns)s::bigint, true)
    )
    AND (
        %(documents)s + %(added_documents)s <= 0
        OR coalesce(
            u.documents + u.added_documents + %(documents)s + %(added_documents)s <= %(max_documents)s::bigint, true
        )
    )
RETURNING stored_bytes

-- name: bytes_of_messages
-- The bytes that messages of one owner count: their parts and source lines, and a fixed number a row.
SELECT coalesce(sum(%(row_bytes)s + octet_length(m.parts::text) + coalesce(octet_length(s.data), 0)), 0)
FROM conversations_message AS m
LEFT JOIN conversations_messagesource AS s ON s.message_id = m.id AND s.owner_id = m.owner_id
WHERE m.owner_id = %(owner)s AND m.id = ANY(%(messages)s)

-- name: recount_conversations
-- Set the bytes that locked conversations count, from their messages and events; by how much each has changed.
UPDATE conversations_conversation AS c SET stored_bytes = counted.stored_bytes
FROM (
    SELECT
        o.id, coalesce(o.stored_bytes, 0) AS before,
        coalesce((
            SELECT sum(%(row_bytes)s + octet_length(m.parts::text) + coalesce(octet_length(s.data), 0))
            FROM conversations_message AS m
            LEFT JOIN conversations_messagesource AS s ON s.message_id = m.id AND s.owner_id = m.owner_id
            WHERE m.owner_id = o.owner_id AND m.conversation_id = o.id
        ), 0) + coalesce((
            SELECT sum(%(row_bytes)s + octet_length(e.payload::text))
            FROM conversations_event AS e
            WHERE e.owner_id = o.owner_id AND e.conversation_id = o.id
        ), 0) AS stored_bytes
    FROM conversations_conversation AS o
    WHERE o.id = ANY(%(conversations)s)
) AS counted
WHERE c.id = counted.id
RETURNING counted.stored_bytes - counted.before

-- name: messages_with_words
-- The messages of one conversation that match all of some patterns in their texts, names of tools or parameters.
SELECT m.id
FROM conversations_message AS m
WHERE
    m.owner_id = %s AND m.conversation_id = %s AND NOT m.superseded
    AND (
        SELECT string_agg(t.value #>> '{}', E'\n')
        FROM (
            SELECT jsonb_path_query(m.parts, '$[*].text') AS value
            UNION ALL
            SELECT jsonb_path_query(m.parts, '$[*].name')
            UNION ALL
            SELECT jsonb_path_query(m.parts, '$[*].input.**')
        ) AS t
    ) ~* ALL(%s)

-- name: waiting_uploads
-- How many uploads of who acts wait to be imported, in all archives, and their bytes.
SELECT uploads, bytes FROM convmemory_waiting_uploads()

-- name: make_contents_function
-- What the parts of a message hold, as a sum: 1 code, 2 a picture, 4 a link. A stored column is computed by it.
CREATE OR REPLACE FUNCTION convmemory_contents(parts jsonb) RETURNS smallint LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
    written text := parts;
BEGIN
    RETURN (strpos(written, '```') > 0)::int + 2 * (strpos(written, '"media_type": "image/') > 0)::int
        + 4 * (strpos(written, 'https://') > 0 OR strpos(written, 'http://') > 0)::int;
END
$$

-- name: models_of_archive
-- The models that an owner's messages name, each read from the index once.
WITH RECURSIVE models AS (
    SELECT min(model) AS model FROM conversations_message WHERE owner_id = %(owner)s AND model > ''
    UNION ALL
    SELECT (
        SELECT min(m.model) FROM conversations_message AS m
        WHERE m.owner_id = %(owner)s AND m.model > '' AND m.model > models.model
    )
    FROM models
    WHERE models.model IS NOT NULL
)
SELECT model FROM models WHERE model IS NOT NULL
