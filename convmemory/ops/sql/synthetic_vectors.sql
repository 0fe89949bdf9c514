-- The table that synthetic vectors are copied into, before they become those of items and passages.
CREATE TEMP TABLE IF NOT EXISTS synthetic_vector (n int, embedding halfvec)
