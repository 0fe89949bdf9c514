-- Empty the tables of a schema that a node has, as far as rows are left here.
SELECT truncate_local_data_after_distributing_table(c.oid)
FROM pg_class AS c
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'
