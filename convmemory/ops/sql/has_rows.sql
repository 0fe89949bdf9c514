-- Whether a table has any rows.
SELECT EXISTS (SELECT FROM {})
