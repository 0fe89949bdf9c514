-- The bytes that one owner has stored, by the sums of conversations, documents and kept uploads.
SELECT
    (SELECT coalesce(sum(stored_bytes), 0) FROM conversations_conversation WHERE owner_id = %(owner)s)
    + (SELECT coalesce(sum(stored_bytes), 0) FROM documents_document WHERE owner_id = %(owner)s)
    + (SELECT coalesce(sum(stored_size), 0) FROM conversations_keptupload WHERE owner_id = %(owner)s)
