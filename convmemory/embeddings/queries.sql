-- name: active_space
-- The space that is searched and written, or no row before the first text is embedded.
SELECT
    id,
    provider,
    model,
    dimensions,
    recipe_version,
    location,
    token_model,
    token_dimensions,
    token_location,
    token_mean,
    is_centred,
    is_active,
    is_building,
    created_at,
    retired_at
FROM embeddings_embeddingspace
WHERE is_active
