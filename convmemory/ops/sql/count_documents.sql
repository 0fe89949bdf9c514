-- Set the bytes of documents that an older version stored: of the file and of the sections' texts.
UPDATE documents_document AS d SET stored_bytes = d.size + (
    SELECT coalesce(sum(octet_length(s.text)), 0) FROM documents_section AS s
    WHERE s.document_id = d.id AND s.owner_id = d.owner_id
)
WHERE d.stored_bytes IS NULL
