-- Delete one batch of a table's rows of one person; the condition stands twice because places are no names: a table
-- over several others has the same ones in each.
DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %(batch)s)) AND ({condition})
