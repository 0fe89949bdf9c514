-- Puts a policy on every table with `owner_id`, whoever created it; idempotent.
DO $body$
DECLARE
    owned record;
    mine text;
BEGIN
    FOR owned IN
        SELECT
            c.oid::regclass AS name, c.relrowsecurity AS is_on, format_type(a.atttypid, NULL) AS owner_type,
            EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polname = 'owner_alone') AS has_policy
        FROM pg_class AS c
        INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    LOOP
        IF NOT owned.has_policy THEN
            mine := format('owner_id = nullif(current_setting(''convmemory.owner'', true), '''')::%s', owned.owner_type);
            EXECUTE format('CREATE POLICY owner_alone ON %s USING (%s) WITH CHECK (%s)', owned.name, mine, mine);
        END IF;
        IF NOT owned.is_on THEN
            EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned.name);
        END IF;
    END LOOP;
END
$body$
