-- Record in every space that a source changed from some item on; if an earlier change was not recorded, from the first.
UPDATE search_sourceindex
SET
    noted_version = %(version)s,
    dirty_from = CASE WHEN noted_version = %(version)s - 1 THEN least(coalesce(dirty_from, %(first)s), %(first)s) ELSE 0 END,
    attempts = 0,
    error = ''
WHERE source_id = %(source)s
