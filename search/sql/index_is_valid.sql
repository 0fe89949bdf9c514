-- Whether an index is valid; no row where there is none.
SELECT i.indisvalid FROM pg_index AS i WHERE i.indexrelid = to_regclass(%s)
