-- Sources that are indexed in the active space and not, or not as far, in another space.
SELECT i.source_id
FROM search_sourceindex AS i
INNER JOIN embeddings_embeddingspace AS active ON active.id = i.space_id AND active.is_active
INNER JOIN search_source AS s ON s.id = i.source_id AND s.version > 0
LEFT JOIN search_sourceindex AS p ON p.source_id = i.source_id AND p.space_id = %(space)s
WHERE p.id IS NULL OR p.error <> '' OR p.indexed_version < i.indexed_version
