-- The places of all documents' files, of versions on their way as well.
SELECT file FROM documents_document WHERE file <> ''
UNION
SELECT next_file FROM documents_document WHERE next_file <> ''
ORDER BY 1
