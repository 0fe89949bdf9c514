-- Whether a table has any row.
SELECT EXISTS (SELECT FROM {})
