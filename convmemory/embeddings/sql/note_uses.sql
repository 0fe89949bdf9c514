-- Note that a person's texts have these vectors.
INSERT INTO embeddings_cachedvectoruse (owner_id, vector_id)
SELECT %s, v.id FROM embeddings_cachedvector AS v WHERE v.space_id = %s AND v.content_hash = ANY(%s)
ON CONFLICT DO NOTHING
