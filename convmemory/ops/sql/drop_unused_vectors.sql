-- Delete one batch of the cached vectors that nobody uses.
DELETE FROM embeddings_cachedvector WHERE id IN (
    SELECT v.id
    FROM embeddings_cachedvector AS v
    LEFT JOIN embeddings_cachedvectoruse AS u ON u.vector_id = v.id
    WHERE u.vector_id IS NULL
    LIMIT %(batch)s
)
