-- Rows that were written to a file, into a table.
COPY {table} ({columns}) FROM STDIN
