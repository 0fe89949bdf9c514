-- The owner's item vectors nearest to a query vector: by binary codes, read from the covering index alone, then exact distances.
WITH near AS MATERIALIZED (
    SELECT e.id
    FROM search_itemembedding AS e
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND {filters}
    ORDER BY e.code <~> binary_quantize(%(vector)s::halfvec), e.id
    LIMIT %(limit)s
)
SELECT array_agg(e.source_id), array_agg(e.item_number), array_agg(1 - (e.embedding <=> %(vector)s::halfvec))
FROM near
INNER JOIN search_itemembedding AS e USING (id)
