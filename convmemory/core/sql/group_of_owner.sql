-- The number of the group that an owner belongs to; no row for an unknown owner.
SELECT p.number FROM core_ownergroup AS p WHERE p.owner_id = %s
