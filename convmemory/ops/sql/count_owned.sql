-- How many rows of a table are one person's.
SELECT count(*) FROM {table} WHERE {condition}
