-- The active user whose unrevoked, unexpired key has this hash, and whether that key only reads.
-- Notes the key's use, not more often than asked to.
WITH found AS (
    SELECT k.id, k.owner_id, k.read_only
    FROM accounts_apikey AS k
    INNER JOIN auth_user AS u ON u.id = k.owner_id
    WHERE
        k.key_hash = %(key_hash)s AND k.revoked_at IS NULL AND u.is_active
        AND (k.expires_at IS NULL OR k.expires_at > now())
),

noted AS (
    UPDATE accounts_apikey AS k
    SET last_used_at = now()
    FROM found
    WHERE k.id = found.id AND (k.last_used_at IS NULL OR k.last_used_at < now() - %(recorded_every)s)
)

SELECT u.*, found.read_only AS key_is_read_only FROM auth_user AS u INNER JOIN found ON found.owner_id = u.id
