-- name: hits
-- The contents of the given items of one owner for a page of results, with the owner's marks (of two in one turn, "wrong"
-- counts); and of those that have all words of a query, in their question too, the links to turns in their first messages.
WITH marks AS MATERIALIZED (
    SELECT DISTINCT ON (s.id, m.turn_number) s.id AS source_id, m.turn_number AS number, k.kind, k.note
    FROM conversations_turnmark AS k
    INNER JOIN conversations_message AS m ON m.id = k.message_id AND m.owner_id = k.owner_id AND m.turn_number IS NOT NULL
    INNER JOIN search_source AS s
        ON s.owner_id = k.owner_id AND s.kind = 'conversation' AND s.object_id = m.conversation_id
    WHERE k.owner_id = %(owner)s AND s.id = ANY(%(sources)s::bigint[])
    ORDER BY s.id, m.turn_number, k.kind DESC
)
SELECT
    d.source_id, d.number, d.opening_id, d.heading, d.created_at, s.title, s.agent, s.project, s.kind, s.object_id,
    s.origin, m.outcome, m.content_hash, marks.kind, marks.note, told.links
FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(asked)s::bool[]) AS t (source_id, number, has_all)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
LEFT JOIN conversations_message AS m ON s.kind = 'conversation' AND m.id = d.opening_id AND m.owner_id = d.owner_id
LEFT JOIN marks ON marks.source_id = d.source_id AND marks.number = d.number
LEFT JOIN LATERAL (
    SELECT string_agg(l.link[1], ' ') AS links
    FROM (
        SELECT f.parts
        FROM conversations_message AS f
        WHERE
            t.has_all AND d.heading ILIKE ALL(%(beginnings)s::text[]) AND s.kind = 'conversation'
            AND f.owner_id = d.owner_id AND f.conversation_id = s.object_id AND f.turn_number = d.number
        ORDER BY f."position"
        LIMIT %(first_messages)s
    ) AS first_ones
    CROSS JOIN LATERAL regexp_matches(first_ones.parts::text, '/conversations/[0-9]{1,18}[?]turn=[0-9]{1,9}', 'g') AS l (link)
) AS told ON TRUE
WHERE d.owner_id = %(owner)s

-- name: later_turns
-- Some turns, each once, as arrays.
SELECT
    array_agg(d.source_id), array_agg(d.number), array_agg(s.object_id), array_agg(s.project), array_agg(d.created_at),
    array_agg(d.heading), array_agg(coalesce(m.outcome ->> 'conclusion', ''))
FROM unnest(%(turn_sources)s::bigint[], %(turn_items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
LEFT JOIN conversations_message AS m ON m.id = d.opening_id AND m.owner_id = %(owner)s
WHERE d.owner_id = %(owner)s AND s.owner_id = %(owner)s AND s.kind = 'conversation'
