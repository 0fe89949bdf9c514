-- The columns of one table of an SQLite database.
SELECT name
FROM pragma_table_info(?)
