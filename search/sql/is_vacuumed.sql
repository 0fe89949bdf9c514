-- Whether at least a share of a table's pages are known to contain no dead rows.
SELECT relallvisible >= relpages * %(share)s
FROM pg_class
WHERE oid = to_regclass(%(table)s)
