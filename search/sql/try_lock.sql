-- Whether an advisory lock is held now, until it is let go of.
SELECT pg_try_advisory_lock(%s, %s)
