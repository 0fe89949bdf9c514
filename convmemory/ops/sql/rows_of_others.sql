-- Which of some rows of a table exist and belong to somebody else.
SELECT "{pk}" FROM {table} WHERE "{pk}" = ANY(%(pks)s) AND ({condition}) IS NOT TRUE
