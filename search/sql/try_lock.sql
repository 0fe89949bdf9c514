-- Try to take an advisory lock without waiting; it is held until it is released.
SELECT pg_try_advisory_lock(%s, %s)
