-- The owner's passages nearest to a query vector: the space's HNSW index over binary codes, then exact distances.
WITH near AS MATERIALIZED (
    SELECT e.source_id, e.item_number, e.embedding
    FROM search_passage AS e
    WHERE e.space_id = {space} AND e.owner_id = %(owner)s AND e.kind = ANY(%(kinds)s) AND {filters}
    ORDER BY
        binary_quantize(e.embedding::halfvec({dimensions}))::bit({dimensions})
        <~> binary_quantize(%(vector)s::halfvec({dimensions}))
    LIMIT %(limit)s
)
SELECT array_agg(source_id), array_agg(item_number), array_agg(1 - (embedding <=> %(vector)s::halfvec))
FROM near
