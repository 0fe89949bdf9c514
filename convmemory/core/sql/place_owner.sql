-- Add an owner to the smallest group, by its share of all bytes and its share of all owners.
WITH sizes AS (
    SELECT
        substring(n.nspname, '[0-9]+$')::int AS number,
        (
            SELECT coalesce(sum(pg_table_size(c.oid)), 0)
            FROM pg_class AS c
            WHERE c.relnamespace = n.oid AND c.relkind = 'r'
        ) AS bytes,
        (SELECT count(*) FROM core_ownergroup AS p WHERE 'group_' || p.number = n.nspname) AS owners
    FROM pg_namespace AS n
    WHERE n.nspname = ANY(%(schemas)s)
)

INSERT INTO core_ownergroup (owner_id, number)
SELECT %(owner)s, s.number
FROM sizes AS s
ORDER BY
    s.bytes / (SELECT greatest(sum(bytes), 1) FROM sizes) + s.owners / (SELECT greatest(sum(owners), 1) FROM sizes),
    s.number
LIMIT 1
ON CONFLICT (owner_id) DO NOTHING
