-- The task to work on next. Its owner has the fewest in work, and among these waits longest to be served; of the
-- owner's tasks it is a long one if the owner may have one more in work and a worker is kept free for others, else the
-- one that was worked on least often, and of these the newest.
WITH working AS (
    SELECT
        owner_id,
        count(*) AS tasks,
        count(*) FILTER (WHERE is_long) AS long_tasks,
        count(*) FILTER (WHERE is_long AND cluster = %(cluster)s) AS long_tasks_here
    FROM core_ownertask
    WHERE leased_until > %(now)s
    GROUP BY owner_id
),

room AS (
    SELECT coalesce(sum(long_tasks_here), 0) < %(most_long)s AS here FROM working
),

owners AS (
    SELECT
        o.owner_id,
        coalesce(w.tasks, 0) AS tasks,
        s.served_at,
        (SELECT here FROM room) AND coalesce(w.long_tasks, 0) < %(most_long_of_owner)s AS may_be_long
    FROM (SELECT DISTINCT owner_id FROM core_ownertask) AS o
    LEFT JOIN working AS w ON w.owner_id = o.owner_id
    LEFT JOIN core_ownerservice AS s ON s.owner_id = o.owner_id
)

SELECT t.id
FROM owners AS o
CROSS JOIN LATERAL (
    SELECT id
    FROM core_ownertask
    WHERE
        owner_id = o.owner_id
        AND due_at <= %(now)s
        AND (leased_until IS NULL OR leased_until <= %(now)s)
        AND (o.may_be_long OR NOT is_long)
    ORDER BY is_long AND %(keeps_one_free)s DESC, slices, asked_at DESC, id DESC
    LIMIT 1
    FOR UPDATE SKIP LOCKED
) AS t
ORDER BY o.tasks, o.served_at NULLS FIRST, t.id
LIMIT 1
