-- How many other connections use a database.
SELECT count(*)
FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()
