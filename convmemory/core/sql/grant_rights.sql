-- Lets both roles, if they exist, read and write rows and nothing more, including rows of tables created later.
DO $body$
DECLARE
    part text;
    here text := format('%I', current_schema());
BEGIN
    FOREACH part IN ARRAY ARRAY['convmemory_app', 'convmemory_maintenance'] LOOP
        CONTINUE WHEN to_regrole(part) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', here, part);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %I', here, part);
        EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %s TO %I', here, part);
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM %I', part);
        EXECUTE format(
            'ALTER DEFAULT PRIVILEGES IN SCHEMA %s GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', here, part
        );
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %s GRANT USAGE, SELECT ON SEQUENCES TO %I', here, part);
    END LOOP;
END
$body$
