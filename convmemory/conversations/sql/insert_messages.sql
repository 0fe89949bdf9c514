-- Insert messages of one conversation in the order of their positions: the id of each position.
INSERT INTO conversations_message (
    owner_id, conversation_id, position, role, is_real_user, superseded, name, model, parts, source_key, content_hash,
    created_at, turn_number
)
SELECT
    %(owner)s, %(conversation)s, v.position, v.role, v.is_real_user, v.superseded, v.name, v.model, v.parts::jsonb,
    v.source_key, v.content_hash, v.created_at, v.turn_number
FROM unnest(
    %(position)s::int[], %(role)s::text[], %(is_real_user)s::bool[], %(superseded)s::bool[], %(name)s::text[],
    %(model)s::text[], %(parts)s::text[], %(source_key)s::text[], %(content_hash)s::bytea[],
    %(created_at)s::timestamptz[], %(turn_number)s::int[]
) AS v (position, role, is_real_user, superseded, name, model, parts, source_key, content_hash, created_at, turn_number)
ORDER BY v.position
RETURNING position, id
