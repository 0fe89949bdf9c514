-- The current search path.
SELECT current_setting('search_path')
