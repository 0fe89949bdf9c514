-- Vectors of texts that the owner already has as passages in the space.
SELECT DISTINCT ON (p.content_hash) p.content_hash, p.embedding::text, p.token_count, t.vectors
FROM search_passage AS p
LEFT JOIN search_tokenvectors AS t ON t.passage_id = p.id AND t.owner_id = p.owner_id
WHERE p.content_hash = ANY(%s::uuid[]) AND p.owner_id = %s AND p.space_id = %s
