-- Add to the bytes that an owner and a conversation have stored; no row if they grow past the limit (0: unlimited).
WITH changed AS (
    UPDATE conversations_conversation SET stored_bytes = greatest(stored_bytes + %(change)s, 0)
    WHERE id = %(conversation)s AND owner_id = %(owner)s AND stored_bytes IS NOT NULL
)
INSERT INTO conversations_storeduse AS u (owner_id, stored_bytes)
SELECT %(owner)s, greatest(%(change)s, 0)
WHERE %(limit)s = 0 OR %(change)s <= %(limit)s
ON CONFLICT (owner_id) DO UPDATE SET stored_bytes = greatest(u.stored_bytes + %(change)s, 0)
WHERE %(limit)s = 0 OR %(change)s < 0 OR u.stored_bytes + %(change)s <= %(limit)s
RETURNING stored_bytes
