-- How far the primary's log is, in bytes, and how far it was behind the last write of a person.
SELECT
    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,
    coalesce((SELECT p.position FROM core_ownerposition AS p WHERE p.owner_id = %(owner)s), 0)
