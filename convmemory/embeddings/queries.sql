-- name: active_space
-- The space that is searched and written, or no row before the first text is embedded.
SELECT
    id,
    provider,
    model,
    dimensions,
    recipe_version,
    location,
    is_active,
    is_building,
    created_at,
    retired_at
FROM embeddings_embeddingspace
WHERE is_active
