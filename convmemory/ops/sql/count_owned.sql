-- How many rows of a table belong to one person.
SELECT count(*) FROM {table} WHERE {condition}
