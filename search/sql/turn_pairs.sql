-- Cosine similarity of every pair of some turns, by their first chunks.
WITH head AS MATERIALIZED (
    SELECT t.place, e.embedding
    FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) WITH ORDINALITY AS t (conversation_id, turn_number, place)
    INNER JOIN search_turnembedding AS e USING (conversation_id, turn_number)
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.chunk_number = 0
)
SELECT array_agg(a.place), array_agg(b.place), array_agg(1 - (a.embedding <=> b.embedding))
FROM head AS a CROSS JOIN head AS b
WHERE a.place <> b.place
