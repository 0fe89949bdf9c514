-- Delete the row of one person.
DELETE FROM {table} WHERE {condition}
