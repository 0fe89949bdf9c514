-- Delete the rows of some owners.
DELETE FROM {table} WHERE owner_id = ANY(%s)
