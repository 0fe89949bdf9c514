-- name: count_all
-- How many rows a table has.
SELECT count(*) FROM {}
