-- The active user whose unrevoked key has this hash; notes the key's use, not more often than told.
WITH found AS (
    SELECT k.id, k.owner_id
    FROM accounts_apikey AS k
    INNER JOIN auth_user AS u ON u.id = k.owner_id
    WHERE k.key_hash = %(key_hash)s AND k.revoked_at IS NULL AND u.is_active
),

noted AS (
    UPDATE accounts_apikey AS k
    SET last_used_at = now()
    FROM found
    WHERE k.id = found.id AND (k.last_used_at IS NULL OR k.last_used_at < now() - %(recorded_every)s)
)

SELECT * FROM auth_user WHERE id IN (SELECT owner_id FROM found)
