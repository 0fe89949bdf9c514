-- The active user whose unrevoked, unexpired key has this hash, and whether that key is read-only.
-- Notes the key's use, not more often than asked to. Nobody is known yet, so it calls a function that no policy holds.
SELECT u.*, found.read_only AS key_is_read_only
FROM convmemory_owner_of_key(%(key_hash)s, %(recorded_every)s) AS found
INNER JOIN auth_user AS u ON u.id = found.owner_id AND u.is_active
