-- The names of all indexes.
SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()
