-- How many rows of a table belong to some owners.
SELECT count(*) FROM {table} WHERE owner_id = ANY(%s)
