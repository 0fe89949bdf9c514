-- name: drafts
-- The schemas that an unfinished distribution left behind.
SELECT n.nspname FROM pg_namespace AS n WHERE n.nspname ~ '^distributing_(?:[0-9]+|ids)$'

-- name: owner_sizes
-- Every archive with what it has: messages and passages.
SELECT
    a.id,
    (SELECT count(*) FROM conversations_message AS m WHERE m.owner_id = a.id)
    + (SELECT coalesce(sum(p.passages), 0) FROM search_passageblock AS p WHERE p.owner_id = a.id)
FROM accounts_archive AS a
ORDER BY a.id

-- name: forget_places
-- Forget which owners belong to which groups.
DELETE FROM core_ownergroup

-- name: place_owners
-- Assign owners to groups.
INSERT INTO core_ownergroup (owner_id, number) SELECT * FROM unnest(%s::bigint[], %s::int[])

-- name: numbered_columns
-- The columns of these tables that draw numbers for new rows from a sequence of their own, and the sequences.
SELECT c.relname, a.attname, s.relname
FROM pg_class AS c
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attidentity <> ''
INNER JOIN pg_depend AS d
    ON d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
INNER JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
ORDER BY c.relname, a.attname

-- name: go_on_counting
-- Continue a sequence where another one stands.
SELECT setval({new}, s.last_value, s.is_called) FROM {old} AS s

-- name: copy_group
-- Copy the rows of a group's owners from the tables of all owners, in the order in which they lie there.
INSERT INTO {target} ({columns})
SELECT {columns} FROM {source} WHERE owner_id IN (SELECT p.owner_id FROM core_ownergroup AS p WHERE p.number = {group})

-- name: connections_of_others
-- How many connections other than these use the database; those between nodes belong to one of them.
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL(%s)
    AND application_name NOT LIKE 'citus%%'

-- name: forget_activity
-- Let the next look at the connections be a new one: within a transaction they are read once.
SELECT pg_stat_clear_snapshot()

-- name: is_coordinator
-- Whether this server is the coordinator of a Citus cluster.
SELECT to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL

-- name: groups_beside_nodes
-- The schemas of groups that have not been given to a node.
SELECT n.nspname
FROM pg_namespace AS n
LEFT JOIN pg_dist_schema AS d ON d.schemaid = n.oid
WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$' AND d.schemaid IS NULL
ORDER BY substring(n.nspname, '[0-9]+$')::int

-- name: group_nodes
-- Of each group the node that holds it, and what that says: the passages, and the bytes of all tables.
SELECT
    g.number,
    p.nodename || ':' || p.nodeport,
    p.success,
    p.result
FROM unnest(%s::int[]) AS g (number)
CROSS JOIN LATERAL run_command_on_placements(
    format('group_%%s.search_passageblock', g.number)::regclass,
    $command$
        SELECT json_build_array(
            (SELECT coalesce(sum(b.passages), 0) FROM %%1$s AS b),
            (
                SELECT sum(pg_total_relation_size(c.oid))
                FROM pg_class AS c
                WHERE c.relnamespace = t.relnamespace AND c.relkind = 'r'
            )
        )
        FROM pg_class AS t
        WHERE t.oid = '%%1$s'::regclass
    $command$
) AS p
ORDER BY g.number

-- name: drop_keys_to_shared
-- Drop the foreign keys from a group's tables to shared ones: a node does not have those.
DO $body$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT k.conname AS name, k.conrelid::regclass AS holder
        FROM pg_constraint AS k
        INNER JOIN pg_class AS c ON c.oid = k.conrelid
        INNER JOIN pg_class AS f ON f.oid = k.confrelid
        WHERE k.contype = 'f' AND c.relnamespace = {schema}::regnamespace AND f.relnamespace <> c.relnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.holder, found.name);
    END LOOP;
END
$body$

-- name: give_to_node
-- Move the tables of a schema to one of the nodes.
SELECT citus_schema_distribute(%s)

-- name: let_go_of_copies
-- Empty the tables of a schema that a node has, as far as rows are left here.
SELECT truncate_local_data_after_distributing_table(c.oid)
FROM pg_class AS c
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'

-- name: unsent_configurations
-- The text search configurations that Citus does not send to nodes, because they are older than its extension here.
SELECT c.cfgname
FROM pg_ts_config AS c
LEFT JOIN pg_dist_object AS d ON d.classid = 'pg_ts_config'::regclass AND d.objid = c.oid
WHERE c.cfgnamespace <> 'pg_catalog'::regnamespace AND d.objid IS NULL
ORDER BY c.cfgname

-- name: run_on_nodes
-- Run a statement on every node; those that refused it, and why.
SELECT nodename || ':' || nodeport, result FROM run_command_on_workers(%s) WHERE NOT success

-- name: table_definitions
-- The statements that make tables like these along the search path, in their order: what comes before their rows are
-- copied, and what comes after. They name no schema but that of the tables that they are like.
WITH tables AS (
    SELECT c.oid, c.relname, c.relnamespace::regnamespace AS place, c.reloptions, t.reloptions AS toast_options
    FROM pg_class AS c
    LEFT JOIN pg_class AS t ON t.oid = c.reltoastrelid
    WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name)
)

SELECT step, statement
FROM (
    SELECT 1 AS step, t.relname AS name, format(
        'CREATE TABLE %%I (LIKE %%s.%%I INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY)', t.relname, t.place, t.relname
    ) AS statement
    FROM tables AS t

    UNION ALL
    SELECT 2, t.relname, format('ALTER TABLE %%I SET (%%s)', t.relname, array_to_string(t.reloptions, ', '))
    FROM tables AS t
    WHERE t.reloptions IS NOT NULL

    UNION ALL
    SELECT 2, t.relname, format(
        'ALTER TABLE %%I SET (%%s)', t.relname,
        (SELECT string_agg('toast.' || said, ', ') FROM unnest(t.toast_options) AS said)
    )
    FROM tables AS t
    WHERE t.toast_options IS NOT NULL

    UNION ALL
    SELECT 3, c.conname, format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', t.relname, c.conname, pg_get_constraintdef(c.oid))
    FROM tables AS t
    INNER JOIN pg_constraint AS c ON c.conrelid = t.oid AND c.contype IN ('p', 'u', 'x')

    UNION ALL
    SELECT 4, x.relname, pg_get_indexdef(i.indexrelid, 0, true)
    FROM tables AS t
    INNER JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisvalid
    INNER JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))

    UNION ALL
    SELECT 5, c.conname, format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', t.relname, c.conname, pg_get_constraintdef(c.oid))
    FROM tables AS t
    INNER JOIN pg_constraint AS c ON c.conrelid = t.oid AND c.contype = 'f'
) AS statements
ORDER BY step, name, statement

-- name: stored_columns
-- The columns of a table whose values are stored.
SELECT a.attname
FROM pg_attribute AS a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum

-- name: copy_migrations
-- Record in a group which migrations its tables have seen.
INSERT INTO {target} (app, name, applied) SELECT app, name, applied FROM {source} ORDER BY id

-- name: group_sizes
-- Each group's owners, its invalid indexes, and its tables that the views over all groups do not read.
SELECT
    g.number,
    (SELECT count(*) FROM core_ownergroup AS p WHERE p.number = g.number),
    ARRAY(
        SELECT x.relname::text
        FROM pg_index AS i
        INNER JOIN pg_class AS x ON x.oid = i.indexrelid AND x.relnamespace = n.oid
        WHERE NOT i.indisvalid
        ORDER BY x.relname
    ),
    ARRAY(
        SELECT t.relname::text
        FROM pg_class AS t
        WHERE
            t.relnamespace = n.oid AND t.relkind = 'r' AND t.relname <> 'django_migrations' AND NOT EXISTS (
                SELECT
                FROM pg_rewrite AS r
                INNER JOIN pg_class AS o ON o.oid = r.ev_class AND o.relnamespace = 'every_group'::regnamespace
                INNER JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid
            )
        ORDER BY t.relname
    )
FROM unnest(%s::int[]) AS g (number)
INNER JOIN pg_namespace AS n ON n.nspname = 'group_' || g.number
ORDER BY g.number
