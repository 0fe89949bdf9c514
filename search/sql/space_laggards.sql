-- Conversations that are indexed in the active space and not, or not as far, in another space.
SELECT i.conversation_id
FROM search_conversationindex AS i
INNER JOIN embeddings_embeddingspace AS active ON active.id = i.space_id AND active.is_active
INNER JOIN conversations_conversation AS c ON c.id = i.conversation_id AND c.turns_version > 0
LEFT JOIN search_spaceprogress AS p ON p.conversation_id = i.conversation_id AND p.space_id = %s
WHERE p.id IS NULL OR p.error <> '' OR p.indexed_version < i.indexed_version
