-- An owner's messages with these ids, without superseded ones, as `StoredMessage` has their fields; with a pattern, only
-- those that match it.
SELECT id, turn_number, role, is_real_user, name, parts, created_at, "position", content_hash
FROM conversations_message
WHERE id = ANY(%(messages)s::bigint[]) AND owner_id = %(owner)s AND NOT superseded
    AND (%(pattern)s::text IS NULL OR parts::text ~* %(pattern)s)
