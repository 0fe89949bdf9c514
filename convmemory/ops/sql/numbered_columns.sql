-- The columns of these tables that draw numbers for new rows from a sequence of their own, and the sequences.
SELECT c.relname, a.attname, s.relname
FROM pg_class AS c
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attidentity <> ''
INNER JOIN pg_depend AS d
    ON d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.classid = 'pg_class'::regclass AND d.deptype = 'i'
INNER JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)
ORDER BY c.relname, a.attname
