-- Reserves tokens of a person's day; no row if use and reservations have reached the limit (0: unlimited).
INSERT INTO accounts_modeluse AS u (owner_id, day, tokens, requests)
VALUES (%(owner)s, %(day)s, %(tokens)s, 1)
ON CONFLICT (owner_id, day) DO UPDATE
SET tokens = u.tokens + excluded.tokens, requests = u.requests + 1
WHERE %(limit)s = 0 OR u.tokens < %(limit)s
RETURNING id
