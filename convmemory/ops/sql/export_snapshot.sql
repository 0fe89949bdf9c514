-- The name by which another connection can see the same rows.
SELECT pg_export_snapshot()
