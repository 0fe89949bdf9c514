-- Reverts the count of an attempt, and drops the count of its name from its address.
WITH cleared AS (
    DELETE FROM sign_in_passwordfailures WHERE key = ANY(%(cleared)s::bytea [])
)

UPDATE sign_in_passwordfailures
SET failures = greatest(0, failures - 1), paused_until = least(paused_until, clock_timestamp())
WHERE key IN (
    SELECT key FROM sign_in_passwordfailures WHERE key = ANY(%(counted)s::bytea []) ORDER BY key FOR UPDATE
)
