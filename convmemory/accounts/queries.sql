-- name: caller_of_key
-- The active user whose unrevoked, unexpired key has this hash, the rights of the key, and the spaces that it reads.
-- Notes the key's use, not more often than asked to. No owner is set yet, so it calls a function that bypasses policies.
SELECT u.*, k.key_id, k.is_read_only, k.writes_spaces, k.spaces
FROM convmemory_caller_of_key(%(key_hash)s, %(recorded_every)s) AS k
INNER JOIN auth_user AS u ON u.id = k.person_id AND u.is_active

-- name: reserve_use
-- Reserves tokens of a day of a person or a space; no row if use and reservations of the day, or of the month with those of its
-- earlier days, have reached the limit (0: unlimited).
INSERT INTO accounts_modeluse AS u (owner_id, day, tokens, requests)
SELECT %(owner)s, %(day)s, %(tokens)s, 1
WHERE %(a_month)s = 0 OR %(earlier)s < %(a_month)s
ON CONFLICT (owner_id, day) DO UPDATE
SET tokens = u.tokens + excluded.tokens, requests = u.requests + 1
WHERE (%(a_day)s = 0 OR u.tokens < %(a_day)s) AND (%(a_month)s = 0 OR u.tokens + %(earlier)s < %(a_month)s)
RETURNING id

-- name: limits_of
-- Each limit of an owner: their own, else the highest of their groups (0, for any amount, is higher than all), else null.
SELECT
    coalesce(
        min(own.stored_mb), CASE WHEN bool_or(g.stored_mb = 0) THEN 0 ELSE max(g.stored_mb) END
    ) AS stored_mb,
    coalesce(min(own.turns), CASE WHEN bool_or(g.turns = 0) THEN 0 ELSE max(g.turns) END) AS turns,
    coalesce(min(own.documents), CASE WHEN bool_or(g.documents = 0) THEN 0 ELSE max(g.documents) END) AS documents,
    coalesce(
        min(own.monthly_tokens), CASE WHEN bool_or(g.monthly_tokens = 0) THEN 0 ELSE max(g.monthly_tokens) END
    ) AS monthly_tokens
FROM (SELECT %(owner)s::int AS id) AS o
LEFT JOIN accounts_quota AS own ON own.owner_id = o.id
LEFT JOIN auth_user_groups AS m ON m.user_id = o.id
LEFT JOIN accounts_groupquota AS g ON g.group_id = m.group_id

-- name: owner_of_identity
-- The id of the user who is linked with a subject of an issuer; null without one.
SELECT convmemory_owner_of_identity(%s, %s)

-- name: number_of_space
-- A number for a new space, from the sequence of the accounts: a person's own archive has the number of the account.
SELECT nextval(pg_get_serial_sequence('auth_user', 'id'))

-- name: owner_of_share_link
-- The id of the active user whose unexpired share link has a token with this hash; null without one.
SELECT convmemory_owner_of_share_link(%s)

-- name: archive_of
-- The owner of a conversation or a document, if the caller is that owner or a member of that space; else null.
SELECT convmemory_archive_of(%s, %s)

-- name: record_act
-- Adds an entry to the audit log. Returns no column of it, which the application may not read.
INSERT INTO accounts_auditentry (created_at, action, surface, person_id, about_id, what)
VALUES (
    now(), %(action)s, %(surface)s, %(person)s,
    coalesce(%(about)s::int, (SELECT u.id FROM auth_user AS u WHERE u.username = %(username)s)), %(what)s
)
RETURNING 1

-- name: spaces_of_person
-- The spaces that a person is a member of, by name, with the role.
SELECT a.id, a.name, m.role
FROM accounts_membership AS m
INNER JOIN accounts_archive AS a ON a.id = m.archive_id
WHERE m.person_id = %(person)s AND a.kind = 'space'
ORDER BY a.name, m.id

-- name: invitations
-- The oldest open invitations to spaces of the person who acts, with the space's and the manager's names.
SELECT i.id, i.space_id, i.space_name, i.role, i.invited_by, i.invited_at
FROM convmemory_invitations(%(since)s) AS i
ORDER BY i.invited_at, i.id
LIMIT %(most)s

-- name: changes_of_spaces
-- When the newest conversation or document of each space of the person who acts was changed; null without one.
SELECT s.space_id, s.changed_at FROM convmemory_changes_of_spaces() AS s

-- name: count_act
-- Adds an entry to the audit log, or counts it to the entry of the same act in the same hour, by a function that may.
SELECT convmemory_count_act(
    %(lock)s, %(action)s, %(surface)s,
    coalesce(%(about)s::int, (SELECT u.id FROM auth_user AS u WHERE u.username = %(username)s)), %(what)s
)
