-- Each group's owners, its conversations by the planner's count, and its bytes.
SELECT
    g.number,
    (SELECT count(*) FROM core_ownergroup AS p WHERE p.number = g.number),
    (
        SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
        FROM pg_class AS c
        WHERE c.relnamespace = n.oid AND c.relname = 'search_passage'
    ),
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relkind = 'r'),
    ARRAY(
        SELECT x.relname::text
        FROM pg_index AS i
        INNER JOIN pg_class AS x ON x.oid = i.indexrelid AND x.relnamespace = n.oid
        WHERE NOT i.indisvalid
        ORDER BY x.relname
    ),
    ARRAY(
        SELECT o.relname::text
        FROM pg_class AS o
        WHERE
            o.relnamespace = 'every_group'::regnamespace AND o.relkind IN ('r', 'v')
            AND NOT EXISTS (
                SELECT
                FROM pg_inherits AS h
                INNER JOIN pg_class AS c ON c.oid = h.inhrelid AND c.relnamespace = n.oid
                WHERE h.inhparent = o.oid
            )
            AND NOT EXISTS (
                SELECT
                FROM pg_rewrite AS r
                INNER JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                INNER JOIN pg_class AS c ON c.oid = d.refobjid AND c.relnamespace = n.oid
                WHERE r.ev_class = o.oid AND d.refclassid = 'pg_class'::regclass
            )
        ORDER BY o.relname
    )
FROM unnest(%s::int[]) AS g (number)
INNER JOIN pg_namespace AS n ON n.nspname = 'group_' || g.number
ORDER BY g.number
