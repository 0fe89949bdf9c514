-- Put a task of a person into the queue, or request the queued one again; no row if the person is gone.
INSERT INTO core_ownertask
    (owner_id, task_id, key, func, args, "group", is_long, version, slices, attempts, asked_at, due_at, cluster)
SELECT
    u.id, %(task_id)s::uuid, %(key)s, %(func)s, %(args)s::jsonb, %(group)s, %(is_long)s, 1, 0, 0,
    %(now)s::timestamptz, %(now)s::timestamptz, ''
FROM auth_user AS u
WHERE u.id = %(owner)s
ON CONFLICT (key) DO UPDATE SET
    version = core_ownertask.version + 1,
    attempts = 0,
    asked_at = excluded.asked_at,
    due_at = least(core_ownertask.due_at, excluded.due_at)
RETURNING id
