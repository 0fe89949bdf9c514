-- Create a table over each table of the groups: it reads, changes and deletes rows of all groups, and accepts no inserts.
-- Where groups lie on nodes, whose tables have no parents, it is a view, which reads.
DO $body$
DECLARE
    named text;
    grouped text;
    columns text;
    has_nodes bool := to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL;
BEGIN
    FOR named IN
        SELECT c.relname
        FROM pg_class AS c
        WHERE
            c.relnamespace = 'group_1'::regnamespace AND c.relkind = 'r' AND c.relname <> 'django_migrations'
            AND to_regclass(format('every_group.%I', c.relname)) IS NULL
        ORDER BY c.relname
    LOOP
        IF has_nodes THEN
            SELECT string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum)
            INTO columns
            FROM pg_attribute AS a
            WHERE a.attrelid = format('group_1.%I', named)::regclass AND a.attnum > 0 AND NOT a.attisdropped;
            EXECUTE format('CREATE VIEW every_group.%I WITH (security_invoker) AS ', named) || (
                SELECT string_agg(format('SELECT %s FROM %I.%I', columns, n.nspname, named), ' UNION ALL ' ORDER BY n.nspname)
                FROM pg_namespace AS n
                WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$'
            );
            CONTINUE;
        END IF;
        EXECUTE format(
            'CREATE TABLE every_group.%I '
            || '(LIKE group_1.%I INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION)',
            named, named
        );
        EXECUTE format(
            'ALTER TABLE every_group.%I ADD CONSTRAINT every_row_lies_in_a_group CHECK (false) NO INHERIT', named
        );
        FOR grouped IN
            SELECT n.nspname FROM pg_namespace AS n WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$' ORDER BY n.nspname
        LOOP
            EXECUTE format('ALTER TABLE %I.%I INHERIT every_group.%I', grouped, named, named);
        END LOOP;
    END LOOP;
END
$body$
