-- The places of all documents' files, including versions still being read.
SELECT file FROM documents_document WHERE file <> ''
UNION
SELECT next_file FROM documents_document WHERE next_file <> ''
ORDER BY 1
