-- Use another search path until the transaction ends.
SELECT set_config('search_path', %s, true)
