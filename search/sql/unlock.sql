-- Release an advisory lock.
SELECT pg_advisory_unlock(%s, %s)
