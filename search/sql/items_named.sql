-- The cosines of some item vectors of the owner, by their ids, to a query vector; those deleted meanwhile are left out.
SELECT array_agg(e.source_id), array_agg(e.item_number), array_agg(1 - (e.embedding <=> %(vector)s::halfvec)), array_agg(e.id)
FROM search_itemembedding AS e
WHERE e.id = ANY(%(ids)s::bigint[]) AND e.owner_id = %(owner)s AND e.space_id = %(space)s
