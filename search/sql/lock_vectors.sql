-- Wait for an advisory lock, which is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s, %s)
