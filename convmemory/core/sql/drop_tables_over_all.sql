-- Drop the tables over all groups, which contain no rows, so that the groups' own can be changed.
DO $body$
DECLARE
    child record;
    parent text;
BEGIN
    FOR child IN
        SELECT i.inhrelid::regclass AS name, i.inhparent::regclass AS parent
        FROM pg_inherits AS i
        INNER JOIN pg_class AS c ON c.oid = i.inhparent AND c.relnamespace = 'every_group'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s NO INHERIT %s', child.name, child.parent);
    END LOOP;
    FOR parent IN
        SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'every_group'::regnamespace AND c.relkind = 'r'
    LOOP
        EXECUTE format('DROP TABLE every_group.%I', parent);
    END LOOP;
END
$body$
