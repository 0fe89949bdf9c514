-- The places of all kept uploads.
SELECT file FROM conversations_keptupload WHERE file <> ''
ORDER BY 1
