-- Copy the rows of a group's owners from the tables of all owners, in the order in which they lie there.
INSERT INTO {target} ({columns})
SELECT {columns} FROM {source} WHERE owner_id IN (SELECT p.owner_id FROM core_ownergroup AS p WHERE p.number = {group})
