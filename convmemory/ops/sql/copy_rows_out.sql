-- All rows of a table, to be written to a file.
COPY (SELECT {columns} FROM {table}) TO STDOUT
