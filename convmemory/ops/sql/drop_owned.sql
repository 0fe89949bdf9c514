-- Delete one batch of a table's rows of one person.
DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %(batch)s))
