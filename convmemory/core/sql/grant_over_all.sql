-- Let maintenance, if it has a log-in of its own, read, change and delete rows of all groups; inserts are not granted.
DO $body$
BEGIN
    IF to_regrole('convmemory_maintenance') IS NOT NULL THEN
        GRANT USAGE ON SCHEMA every_group TO convmemory_maintenance;
        GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA every_group TO convmemory_maintenance;
    END IF;
END
$body$
