-- The owner's passages nearest to a query vector: by signs, read from the covering index alone, then exact distances.
WITH near AS MATERIALIZED (
    SELECT e.id
    FROM memory_passage AS e
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s) AND {filters}
    ORDER BY e.signs <~> binary_quantize(%(vector)s::halfvec)
    LIMIT %(limit)s
)
SELECT array_agg(e.conversation_id), array_agg(e.turn_number), array_agg(1 - (e.embedding <=> %(vector)s::halfvec))
FROM near
INNER JOIN memory_passage AS e USING (id)
