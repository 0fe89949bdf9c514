-- Wait for an advisory lock that others may share, and hold it until the transaction ends.
SELECT pg_advisory_xact_lock_shared(%s, %s)
