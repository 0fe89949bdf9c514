-- Let the next look at the connections be a new one: within a transaction they are read once.
SELECT pg_stat_clear_snapshot()
