-- The passages of some turns that are nearest to the query, a few a turn, nearest first.
SELECT conversation_id, turn_number, message_id, part_index, "start", "end", similarity
FROM (
    SELECT
        e.conversation_id, e.turn_number, e.message_id, e.part_index, e."start", e."end",
        1 - (e.embedding <=> %(vector)s::halfvec) AS similarity,
        row_number() OVER (
            PARTITION BY e.conversation_id, e.turn_number ORDER BY e.embedding <=> %(vector)s::halfvec
        ) AS place
    FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS t (conversation_id, turn_number)
    INNER JOIN memory_passage AS e USING (conversation_id, turn_number)
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s)
) AS ranked
WHERE place <= %(passages)s
ORDER BY place
