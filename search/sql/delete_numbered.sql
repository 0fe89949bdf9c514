-- Delete the rows of a table with these numbers.
DELETE FROM {table} WHERE {number} = ANY(%(numbers)s)
