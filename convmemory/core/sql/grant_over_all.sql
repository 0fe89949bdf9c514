-- Let maintenance, where it has a log-in of its own, read, change and delete rows of all groups; nobody adds any there.
DO $body$
BEGIN
    IF to_regrole('convmemory_maintenance') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA every_group TO convmemory_maintenance;
        GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA every_group TO convmemory_maintenance;
    END IF;
END
$body$
