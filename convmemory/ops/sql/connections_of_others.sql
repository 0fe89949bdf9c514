-- How many connections other than these use the database; those between nodes belong to one of them.
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL(%s)
    AND application_name NOT LIKE 'citus%%'
