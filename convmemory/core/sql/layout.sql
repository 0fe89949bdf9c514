-- The numbers of the groups that owners are spread over, none where there is one; the schema of shared tables; its path;
-- whether the server is the coordinator of several (Citus).
SELECT
    ARRAY(
        SELECT substring(g.nspname, '[0-9]+$')::int AS number
        FROM pg_namespace AS g
        INNER JOIN pg_namespace AS a ON a.nspname = 'every_group'
        WHERE g.nspname ~ '^group_[1-9][0-9]{0,3}$'
        ORDER BY number
    ),
    coalesce(current_schema(), 'public'),
    current_setting('search_path'),
    to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL
