-- The server's version, the database's pgvector, and the newest pgvector that the server has.
SELECT
    current_setting('server_version_num')::int / 10000,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')
