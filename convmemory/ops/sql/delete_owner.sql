-- Delete the rows of one owner from the table of a group.
DELETE FROM {source} WHERE owner_id = %s
