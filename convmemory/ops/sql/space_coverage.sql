-- For each embedding space: how many turns have a vector in it, and how many passages.
SELECT
    s.id,
    s.provider || '/' || s.model || ', ' || s.dimensions,
    s.is_active,
    coalesce(t.turns, 0),
    coalesce(p.passages, 0)
FROM embeddings_embeddingspace AS s
LEFT JOIN (
    SELECT space_id, count(*) FILTER (WHERE chunk_number = 0) AS turns FROM search_itemembedding GROUP BY space_id
) AS t ON t.space_id = s.id
LEFT JOIN (SELECT space_id, count(*) AS passages FROM search_passage GROUP BY space_id) AS p ON p.space_id = s.id
ORDER BY s.is_active DESC, s.id
