-- Cosine similarity of the owner's turns to a query vector by their best passage, exactly (no index).
SELECT array_agg(conversation_id), array_agg(turn_number), array_agg(similarity)
FROM (
    SELECT e.conversation_id, e.turn_number, 1 - min(e.embedding <=> %(vector)s::halfvec) AS similarity
    FROM memory_passage AS e
    INNER JOIN conversations_conversation AS c ON c.id = e.conversation_id
    WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.kind = ANY(%(kinds)s) AND {filters}
    GROUP BY e.conversation_id, e.turn_number
    ORDER BY similarity DESC
    LIMIT %(limit)s
) AS best
