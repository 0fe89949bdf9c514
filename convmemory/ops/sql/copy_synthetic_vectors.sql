-- Reads numbered vectors from the client, in PostgreSQL's binary format.
COPY synthetic_vector (n, embedding) FROM STDIN (FORMAT binary)
