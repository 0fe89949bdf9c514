-- Makes room for the next synthetic vectors.
TRUNCATE synthetic_vector
