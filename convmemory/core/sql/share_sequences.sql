-- Let the tables of new models draw their numbers, which are unique over all groups, from one sequence for all groups.
DO $body$
DECLARE
    home text := current_schema();
    drawn record;
    grouped text;
    highest bigint;
    here bigint;
BEGIN
    FOR drawn IN
        SELECT DISTINCT c.relname AS tab, a.attname AS col, format('%s_%s_seq', c.relname, a.attname) AS seq
        FROM pg_class AS c
        INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname ~ '^group_[1-9][0-9]{0,3}$'
        INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attidentity <> ''
        WHERE c.relname <> 'django_migrations'
    LOOP
        highest := 0;
        FOR grouped IN SELECT n.nspname FROM pg_namespace AS n WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$' LOOP
            EXECUTE format('SELECT coalesce(max(%I), 0) FROM %I.%I', drawn.col, grouped, drawn.tab) INTO here;
            IF here > 0 AND highest > 0 THEN
                RAISE EXCEPTION 'A migration has filled the new table % in several groups: their numbers are not unique.', drawn.tab
                    USING HINT = 'Fill it in a later migration than the one that makes it.';
            END IF;
            highest := greatest(highest, here);
        END LOOP;
        EXECUTE format('CREATE SEQUENCE %I.%I START %s', home, drawn.seq, highest + 1);
        FOR grouped IN SELECT n.nspname FROM pg_namespace AS n WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$' LOOP
            EXECUTE format(
                'ALTER TABLE %I.%I ALTER COLUMN %I DROP IDENTITY, ALTER COLUMN %I SET DEFAULT nextval(''%I.%I'')',
                grouped, drawn.tab, drawn.col, drawn.col, home, drawn.seq
            );
        END LOOP;
    END LOOP;
END
$body$
