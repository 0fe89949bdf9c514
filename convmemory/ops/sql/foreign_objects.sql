-- Objects of a restored database that no backup of this program contains; all could run code for whoever reads rows.
WITH extended AS MATERIALIZED (
    SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
),
found (kind, name, class, object) AS (
    SELECT 'function', oid::regprocedure::text, 'pg_proc'::regclass, oid FROM pg_proc
    WHERE pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
    UNION ALL
    SELECT 'trigger', tgname, 'pg_trigger'::regclass, oid FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'event trigger', evtname, 'pg_event_trigger'::regclass, oid FROM pg_event_trigger
    UNION ALL
    SELECT 'relation', relname, 'pg_class'::regclass, oid FROM pg_class
    WHERE relkind NOT IN ('r', 'p', 'i', 'I', 'S', 't') AND oid >= 16384
    UNION ALL
    SELECT 'rule', rulename, 'pg_rewrite'::regclass, oid FROM pg_rewrite WHERE oid >= 16384
    UNION ALL
    SELECT 'policy', polname, 'pg_policy'::regclass, oid FROM pg_policy
    UNION ALL
    SELECT 'operator', oprname, 'pg_operator'::regclass, oid FROM pg_operator WHERE oid >= 16384
    UNION ALL
    SELECT 'operator class', opcname, 'pg_opclass'::regclass, oid FROM pg_opclass WHERE oid >= 16384
    UNION ALL
    SELECT 'cast', castsource::regtype::text, 'pg_cast'::regclass, oid FROM pg_cast WHERE oid >= 16384
    UNION ALL
    SELECT 'conversion', conname, 'pg_conversion'::regclass, oid FROM pg_conversion WHERE oid >= 16384
    UNION ALL
    SELECT 'type', t.typname, 'pg_type'::regclass, t.oid FROM pg_type AS t
    WHERE t.oid >= 16384 AND t.typtype <> 'c' AND NOT EXISTS (
        SELECT FROM pg_type AS e WHERE e.typarray = t.oid AND e.typtype IN ('c', 'b')
    )
    UNION ALL
    SELECT 'statistics', stxname, 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
    UNION ALL
    SELECT 'language', lanname, 'pg_language'::regclass, oid FROM pg_language WHERE oid >= 16384
    UNION ALL
    SELECT 'publication', pubname, 'pg_publication'::regclass, oid FROM pg_publication
    UNION ALL
    SELECT 'foreign server', srvname, 'pg_foreign_server'::regclass, oid FROM pg_foreign_server
    UNION ALL
    SELECT 'extension', extname, 'pg_extension'::regclass, oid FROM pg_extension
    WHERE extname NOT IN ('plpgsql', 'vector')
    UNION ALL
    SELECT 'schema', nspname, 'pg_namespace'::regclass, oid FROM pg_namespace
    WHERE nspname NOT IN ('public', 'information_schema', 'every_group') AND nspname !~ '^pg_|^group_[1-9][0-9]{0,3}$'
    UNION ALL
    SELECT 'setting', array_to_string(s.setconfig, ' '), 'pg_database'::regclass, s.setdatabase
    FROM pg_db_role_setting AS s INNER JOIN pg_database AS d ON d.oid = s.setdatabase
    WHERE d.datname = current_database()
)
SELECT kind, name FROM found
WHERE NOT EXISTS (SELECT FROM extended WHERE classid = class AND objid = object)
ORDER BY kind, name
