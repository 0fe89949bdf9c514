-- The owner's turn vectors nearest to a query vector, exactly.
SELECT array_agg(conversation_id), array_agg(turn_number), array_agg(similarity)
FROM (
    SELECT e.conversation_id, e.turn_number, 1 - (e.embedding <=> %(vector)s::halfvec) AS similarity
    FROM search_turnembedding AS e
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND {filters}
    ORDER BY similarity DESC
    LIMIT %(limit)s
) AS best
