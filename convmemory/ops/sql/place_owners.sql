-- Assign owners to groups.
INSERT INTO core_ownergroup (owner_id, number) SELECT * FROM unnest(%s::bigint[], %s::int[])
