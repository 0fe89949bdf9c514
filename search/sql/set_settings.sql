-- Set some settings of this connection.
SELECT set_config(name, value, FALSE) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)
