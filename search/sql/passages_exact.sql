-- The owner's passages nearest to a query vector, exactly: their b-tree, then a sort that no vector index can serve.
SELECT array_agg(source_id), array_agg(item_number), array_agg(similarity)
FROM (
    SELECT e.source_id, e.item_number, 1 - (e.embedding <=> %(vector)s::halfvec) AS similarity
    FROM search_passage AS e
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s) AND {filters}
    ORDER BY similarity DESC
    LIMIT %(limit)s
) AS best
