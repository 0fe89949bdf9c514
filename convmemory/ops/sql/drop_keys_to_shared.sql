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
