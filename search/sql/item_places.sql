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
