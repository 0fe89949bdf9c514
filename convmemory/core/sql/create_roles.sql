-- Creates the roles that the application and maintenance log in with, if they are missing; needs a superuser.
DO $body$
BEGIN
    IF to_regrole('convmemory_app') IS NULL THEN
        CREATE ROLE convmemory_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
    IF to_regrole('convmemory_maintenance') IS NULL THEN
        CREATE ROLE convmemory_maintenance LOGIN NOSUPERUSER BYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;  -- another process has just made them
END
$body$
