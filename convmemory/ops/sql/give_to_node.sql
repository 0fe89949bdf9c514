-- Move the tables of a schema to one of the nodes.
SELECT citus_schema_distribute(%s)
