-- The schemas of groups that have not been given to a node.
SELECT n.nspname
FROM pg_namespace AS n
LEFT JOIN pg_dist_schema AS d ON d.schemaid = n.oid
WHERE n.nspname ~ '^group_[1-9][0-9]{0,3}$' AND d.schemaid IS NULL
ORDER BY substring(n.nspname, '[0-9]+$')::int
