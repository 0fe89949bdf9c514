-- How far a replica has come in the log, in bytes; null if it is not a replica or receives no log.
SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint
WHERE pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
