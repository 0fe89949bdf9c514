-- Of each group the node that holds it, and what that says: the planner's count of passages and the bytes of all tables.
SELECT
    g.number,
    p.nodename || ':' || p.nodeport,
    p.success,
    p.result
FROM unnest(%s::int[]) AS g (number)
CROSS JOIN LATERAL run_command_on_placements(
    format('group_%%s.search_passage', g.number)::regclass,
    $command$
        SELECT json_build_array(
            greatest(t.reltuples, 0)::bigint,
            (
                SELECT sum(pg_total_relation_size(c.oid))
                FROM pg_class AS c
                WHERE c.relnamespace = t.relnamespace AND c.relkind = 'r'
            )
        )
        FROM pg_class AS t
        WHERE t.oid = '%%s'::regclass
    $command$
) AS p
ORDER BY g.number
