-- What another connection names to see the same rows.
SELECT pg_export_snapshot()
