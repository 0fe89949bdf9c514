-- name: hits
-- The contents of the given items of one owner for a page of results.
SELECT
    d.source_id, d.number, d.opening_id, d.heading, d.created_at, s.title, s.agent, s.project, s.kind, s.object_id,
    m.outcome, m.content_hash
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
LEFT JOIN conversations_message AS m ON s.kind = 'conversation' AND m.id = d.opening_id AND m.owner_id = d.owner_id
WHERE d.owner_id = %(owner)s

-- name: item_places
-- The places of the passages of some items, by kind, a limited number per item; without a space in the active one.
SELECT t.source_id, t.item_number, e.element_id, e.part_index, e."start", e."end"
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
CROSS JOIN LATERAL (
    SELECT p.element_id, p.part_index, p."start", p."end"
    FROM search_passage AS p
    WHERE
        p.source_id = t.source_id AND p.item_number = t.item_number
        AND p.owner_id = %(owner)s AND p.kind = ANY(%(kinds)s)
        AND p.space_id = COALESCE(%(space)s::bigint, (SELECT s.id FROM embeddings_embeddingspace AS s WHERE s.is_active))
    ORDER BY p.kind, p.id
    LIMIT %(passages)s::bigint
) AS e

-- name: later_turns
-- The heading and conclusion of some turns, and those of later ones, oldest first: of the next ones in the conversation, and
-- of those of the same project among the best of a search.
WITH t AS (
    SELECT d.source_id, d.number, d.heading, d.opening_id, d.created_at, s.project, s.object_id
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
    INNER JOIN search_item AS d USING (source_id, number)
    INNER JOIN search_source AS s ON s.id = d.source_id
    WHERE d.owner_id = %(owner)s AND s.owner_id = %(owner)s AND s.kind = 'conversation'
),
best AS (
    SELECT d.source_id, d.number, d.heading, d.opening_id, d.created_at, s.project, s.object_id
    FROM unnest(%(best_sources)s::bigint[], %(best_items)s::int[]) AS b (source_id, number)
    INNER JOIN search_item AS d USING (source_id, number)
    INNER JOIN search_source AS s ON s.id = d.source_id
    WHERE d.owner_id = %(owner)s AND s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.project <> ''
),
pairs AS (
    SELECT t.source_id, t.number, l.object_id, l.number AS later, l.heading, l.opening_id, l.created_at, l.is_next
    FROM t
    CROSS JOIN LATERAL (
        (
            SELECT t.object_id, d.number, d.heading, d.opening_id, d.created_at, d.number = t.number + 1 AS is_next
            FROM search_item AS d
            WHERE d.owner_id = %(owner)s AND d.source_id = t.source_id AND d.number > t.number
            ORDER BY d.number
            LIMIT %(following)s
        )
        UNION ALL
        (
            SELECT b.object_id, b.number, b.heading, b.opening_id, b.created_at, FALSE
            FROM best AS b
            WHERE b.project = t.project AND b.source_id <> t.source_id AND b.created_at > t.created_at
        )
    ) AS l
)
SELECT
    p.source_id, p.number, t.heading, o.outcome ->> 'conclusion', p.object_id, p.later, p.heading, m.outcome ->> 'conclusion',
    p.is_next
FROM pairs AS p
INNER JOIN t ON t.source_id = p.source_id AND t.number = p.number
LEFT JOIN conversations_message AS o ON o.id = t.opening_id AND o.owner_id = %(owner)s
LEFT JOIN conversations_message AS m ON m.id = p.opening_id AND m.owner_id = %(owner)s
ORDER BY p.created_at, p.later
