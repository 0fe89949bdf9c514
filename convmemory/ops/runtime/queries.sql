-- name: count_documents
-- Set the bytes of documents that an older version stored: of the file and of the sections' texts.
UPDATE documents_document AS d SET stored_bytes = d.size + (
    SELECT coalesce(sum(octet_length(s.text)), 0) FROM documents_section AS s
    WHERE s.document_id = d.id AND s.owner_id = d.owner_id
)
WHERE d.stored_bytes IS NULL

-- name: owners_with_storage
-- The owners who have stored something, or of whom it is recorded.
SELECT owner_id FROM conversations_storeduse
UNION SELECT owner_id FROM conversations_conversation
UNION SELECT owner_id FROM conversations_keptupload
UNION SELECT owner_id FROM documents_document
ORDER BY owner_id

-- name: stored_by_owner
-- What one owner has stored, by the sums of conversations, documents and kept uploads: bytes, turns, documents.
SELECT c.bytes + d.bytes + k.bytes, c.turns, d.documents
FROM
    (
        SELECT coalesce(sum(stored_bytes), 0) AS bytes, coalesce(sum(turn_count), 0) AS turns
        FROM conversations_conversation WHERE owner_id = %(owner)s
    ) AS c,
    (
        SELECT coalesce(sum(stored_bytes), 0) AS bytes, count(*) AS documents
        FROM documents_document WHERE owner_id = %(owner)s
    ) AS d,
    (SELECT coalesce(sum(stored_size), 0) AS bytes FROM conversations_keptupload WHERE owner_id = %(owner)s) AS k
