-- The owner's passages nearest to a query vector: the space's HNSW index over signs, then exact distances.
WITH near AS MATERIALIZED (
    SELECT e.conversation_id, e.turn_number, e.embedding
    FROM memory_passage AS e
    WHERE e.space_id = {space} AND e.owner_id = %(owner)s AND e.kind = ANY(%(kinds)s) AND {filters}
    ORDER BY
        binary_quantize(e.embedding::halfvec({dimensions}))::bit({dimensions})
        <~> binary_quantize(%(vector)s::halfvec({dimensions}))
    LIMIT %(limit)s
)
SELECT array_agg(conversation_id), array_agg(turn_number), array_agg(1 - (embedding <=> %(vector)s::halfvec))
FROM near
