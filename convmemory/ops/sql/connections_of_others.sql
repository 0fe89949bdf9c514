-- How many connections other than these use the database.
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL(%s)
