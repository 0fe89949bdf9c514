-- The search path that is in force.
SELECT current_setting('search_path')
