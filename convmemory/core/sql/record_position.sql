-- Record the position of the log after a write of a person; nothing if the person is gone.
INSERT INTO core_ownerposition AS p (owner_id, position)
SELECT u.id, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
FROM auth_user AS u
WHERE u.id = %(owner)s
ON CONFLICT (owner_id) DO UPDATE SET position = greatest(p.position, EXCLUDED.position)
