-- The text search configurations that Citus does not send to nodes, because they are older than its extension here.
SELECT c.cfgname
FROM pg_ts_config AS c
LEFT JOIN pg_dist_object AS d ON d.classid = 'pg_ts_config'::regclass AND d.objid = c.oid
WHERE c.cfgnamespace <> 'pg_catalog'::regnamespace AND d.objid IS NULL
ORDER BY c.cfgname
