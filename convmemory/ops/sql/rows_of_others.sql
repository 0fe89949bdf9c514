-- Which of some rows of a table exist and are not one person's.
SELECT "{pk}" FROM {table} WHERE "{pk}" = ANY(%(pks)s) AND ({condition}) IS NOT TRUE
