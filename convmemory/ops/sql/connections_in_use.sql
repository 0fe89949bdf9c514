-- How many connections are in use, and how many there may be.
SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity
