-- The names of the files that rows of one person hold.
SELECT "{column}" FROM {table} WHERE {condition}
