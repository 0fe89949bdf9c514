-- The names of all indexes, with their schemas.
SELECT schemaname, indexname FROM pg_indexes WHERE schemaname = ANY(%s)
