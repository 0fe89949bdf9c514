-- Whether this server is the coordinator of several, by Citus.
SELECT to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL
