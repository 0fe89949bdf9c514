-- The passages of some items with their token vectors and their messages, the nearest to the query first, a few a message.
SELECT element_id, source_id, "position", part_index, "start", "end", similarity, vectors, asks
FROM (
    SELECT
        e.element_id, e.source_id, m."position", e.part_index, e."start", e."end", e.asks, k.vectors,
        1 - (e.embedding <=> %(vector)s::halfvec) AS similarity,
        row_number() OVER (PARTITION BY e.element_id ORDER BY e.embedding <=> %(vector)s::halfvec) AS in_message,
        row_number() OVER (
            PARTITION BY e.source_id, e.item_number ORDER BY e.embedding <=> %(vector)s::halfvec
        ) AS in_item
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, item_number)
    INNER JOIN search_passage AS e USING (source_id, item_number)
    INNER JOIN conversations_message AS m ON m.id = e.element_id AND m.owner_id = e.owner_id
    LEFT JOIN search_tokenvectors AS k ON k.passage_id = e.id AND k.owner_id = e.owner_id
    WHERE
        e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
        AND m.id <> ALL(%(alive)s) AND m."position" BETWEEN %(first_position)s AND %(last_position)s
) AS ranked
WHERE in_message <= %(passages_per_message)s AND in_item <= %(passages_per_item)s
ORDER BY similarity DESC
