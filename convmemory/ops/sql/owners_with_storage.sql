-- The owners who have stored something, or of whom it is recorded.
SELECT owner_id FROM conversations_storeduse
UNION SELECT owner_id FROM conversations_conversation
UNION SELECT owner_id FROM conversations_keptupload
UNION SELECT owner_id FROM documents_document
ORDER BY owner_id
