-- The server's version, the size of the database, its pgvector and its name.
SELECT
    current_setting('server_version'),
    pg_size_pretty(pg_database_size(current_database())),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    current_database()
