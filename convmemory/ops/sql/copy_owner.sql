-- Copy the rows of one owner to the table of another group.
INSERT INTO {target} ({columns}) SELECT {columns} FROM {source} WHERE owner_id = %s
