-- name: items_without_vectors
-- Those of some items of one owner that have no vector of their current text in a space.
SELECT array_agg(d.source_id), array_agg(d.number)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
LEFT JOIN search_itemembedding AS e
    ON e.source_id = d.source_id AND e.space_id = %(space)s AND e.item_number = d.number AND e.chunk_number = 0
    AND e.owner_id = d.owner_id
WHERE d.owner_id = %(owner)s AND (e.id IS NULL OR e.content_hash <> d.content_hash)

-- name: item_moments
-- When each of some items of one owner was written: sources, numbers and moments, each column as the bytes of its values.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(timestamptz_send(d.created_at), ''::bytea)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
WHERE d.owner_id = %(owner)s

-- name: sources_begun
-- Whether a conversation or document of the owner began within some days.
SELECT EXISTS (
    SELECT FROM search_source WHERE owner_id = %(owner)s AND created_at >= %(first)s AND created_at < %(after_last)s
)

-- name: repeated_questions
-- The contents of some items of one owner, and of those that have all words of a query, in their question too, the links to
-- turns in their first messages.
SELECT d.source_id, d.number, s.object_id, d.heading, d.created_at, s.origin, told.links
FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(asked)s::bool[]) AS t (source_id, number, has_all)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
LEFT JOIN LATERAL (
    SELECT string_agg(l.link[1], ' ') AS links
    FROM (
        SELECT m.parts
        FROM conversations_message AS m
        WHERE
            t.has_all AND d.heading ILIKE ALL(%(beginnings)s::text[]) AND s.kind = 'conversation'
            AND m.owner_id = d.owner_id AND m.conversation_id = s.object_id AND m.turn_number = d.number
        ORDER BY m."position"
        LIMIT %(messages)s
    ) AS first_ones
    CROSS JOIN LATERAL regexp_matches(first_ones.parts::text, '/conversations/[0-9]{1,18}[?]turn=[0-9]{1,9}', 'g') AS l (link)
) AS told ON TRUE
WHERE d.owner_id = %(owner)s
