-- Assign an owner to another group.
UPDATE core_ownergroup SET number = %(number)s WHERE owner_id = %(owner)s
