-- The owner's item vectors nearest to a query vector, exactly.
SELECT array_agg(source_id), array_agg(item_number), array_agg(similarity)
FROM (
    SELECT e.source_id, e.item_number, 1 - (e.embedding <=> %(vector)s::halfvec) AS similarity
    FROM search_itemembedding AS e
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND {filters}
    ORDER BY similarity DESC, e.id
    LIMIT %(limit)s
) AS best
