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

-- name: hit_passages
-- Where some passages of the owner, by their ids, stand; those deleted meanwhile are left out.
SELECT e.id, e.source_id, e.item_number, e.element_id, e.part_index, e."start", e."end"
FROM search_passage AS e
WHERE e.id = ANY(%(ids)s::bigint[]) AND e.owner_id = %(owner)s AND e.space_id = %(space)s

-- name: shown_codes
-- The codes of the passages within each of some spans of elements' parts; none for a span without a vector.
SELECT t.place, string_agg(e.code, ''::bytea)
FROM unnest(%(elements)s::bigint[], %(parts)s::int[], %(starts)s::int[], %(ends)s::int[]) WITH ORDINALITY
    AS t (element_id, part_index, first, last, place)
INNER JOIN search_passage AS e
    ON e.element_id = t.element_id AND e.part_index = t.part_index AND e."start" >= t.first AND e."end" <= t.last
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s
GROUP BY t.place

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
