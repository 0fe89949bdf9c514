-- name: place_owner
-- Add an owner to the smallest group, by its share of all bytes and its share of all owners.
WITH sizes AS (
    SELECT
        substring(n.nspname, '[0-9]+$')::int AS number,
        (
            SELECT coalesce(sum(pg_table_size(c.oid)), 0)
            FROM pg_class AS c
            WHERE c.relnamespace = n.oid AND c.relkind = 'r'
        ) AS bytes,
        (SELECT count(*) FROM core_ownergroup AS p WHERE 'group_' || p.number = n.nspname) AS owners
    FROM pg_namespace AS n
    WHERE n.nspname = ANY(%(schemas)s)
)

INSERT INTO core_ownergroup (owner_id, number)
SELECT %(owner)s, s.number
FROM sizes AS s
ORDER BY
    s.bytes / (SELECT greatest(sum(bytes), 1) FROM sizes) + s.owners / (SELECT greatest(sum(owners), 1) FROM sizes),
    s.number
LIMIT 1
ON CONFLICT (owner_id) DO NOTHING

-- name: group_of_owner
-- The number of the group that an owner belongs to; no row for an unknown owner.
SELECT p.number FROM core_ownergroup AS p WHERE p.owner_id = %s

-- name: layout
-- The numbers of the groups that owners are spread over, none on one server; the schema of shared tables; its path.
SELECT
    ARRAY(
        SELECT substring(g.nspname, '[0-9]+$')::int AS number
        FROM pg_namespace AS g
        INNER JOIN pg_namespace AS a ON a.nspname = 'every_group'
        WHERE g.nspname ~ '^group_[1-9][0-9]{0,3}$'
        ORDER BY number
    ),
    coalesce(current_schema(), 'public'),
    current_setting('search_path')

-- name: pass_settings_on
-- Let SET LOCAL reach the nodes; no other setting does.
SET citus.propagate_set_commands = 'local'

-- name: role_in_space
-- The role that the acting person has at this moment in the space whose rows are used; null without one.
SELECT convmemory_role_in_space()

-- name: grant_over_all
-- Let maintenance, if it has a log-in of its own, read the rows of all groups.
DO $body$
BEGIN
    IF to_regrole('convmemory_maintenance') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA every_group TO convmemory_maintenance;
        GRANT SELECT ON ALL TABLES IN SCHEMA every_group TO convmemory_maintenance;
    END IF;
END
$body$

-- name: drop_views_over_all
-- Drop the views over all groups, so that the groups' columns can be changed.
DO $body$
DECLARE
    named text;
BEGIN
    FOR named IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'every_group'::regnamespace AND c.relkind = 'v' LOOP
        EXECUTE format('DROP VIEW every_group.%I', named);
    END LOOP;
END
$body$

-- name: make_views_over_all
-- Create the missing views that read the rows of all groups, one over each table of the groups.
DO $body$
DECLARE
    named text;
    columns text;
BEGIN
    FOR named IN
        SELECT c.relname
        FROM pg_class AS c
        WHERE
            c.relnamespace = 'group_1'::regnamespace AND c.relkind = 'r' AND c.relname <> 'django_migrations'
            AND to_regclass(format('every_group.%I', c.relname)) IS NULL
    LOOP
        SELECT string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum)
        INTO columns
        FROM pg_attribute AS a
        WHERE a.attrelid = format('group_1.%I', named)::regclass AND a.attnum > 0 AND NOT a.attisdropped;
        EXECUTE format('CREATE VIEW every_group.%I WITH (security_invoker) AS ', named) || (
            SELECT string_agg(format('SELECT %s FROM %I.%I', columns, n.nspname, named), ' UNION ALL ' ORDER BY n.nspname)
            FROM pg_namespace AS n
            WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$'
        );
    END LOOP;
END
$body$
