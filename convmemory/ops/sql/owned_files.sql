-- The names of the files that belong to rows of one person.
SELECT "{column}" FROM {table} WHERE {condition}
