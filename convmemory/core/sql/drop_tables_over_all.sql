-- Drop the tables or views over all groups, which contain no rows, so that the groups' own can be changed.
DO $body$
DECLARE
    child record;
    parent record;
BEGIN
    FOR child IN
        SELECT i.inhrelid::regclass AS name, i.inhparent::regclass AS parent
        FROM pg_inherits AS i
        INNER JOIN pg_class AS c ON c.oid = i.inhparent AND c.relnamespace = 'every_group'::regnamespace
    LOOP
        EXECUTE format('ALTER TABLE %s NO INHERIT %s', child.name, child.parent);
    END LOOP;
    FOR parent IN
        SELECT c.relname AS name, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind
        FROM pg_class AS c
        WHERE c.relnamespace = 'every_group'::regnamespace AND c.relkind IN ('r', 'v')
    LOOP
        EXECUTE format('DROP %s every_group.%I', parent.kind, parent.name);
    END LOOP;
END
$body$
