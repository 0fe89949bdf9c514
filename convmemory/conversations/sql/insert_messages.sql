-- Insert messages of one conversation, given as one JSON array, in the order of their positions; returns their ids.
INSERT INTO conversations_message (
    owner_id, conversation_id, position, role, is_real_user, superseded, name, model, parts, source_key, content_hash,
    created_at, turn_number
)
SELECT
    %(owner)s, %(conversation)s, v.position, v.role, v.is_real_user, v.superseded, v.name, v.model, v.parts,
    v.source_key, decode(v.content_hash, 'hex'), v.created_at, v.turn_number
FROM jsonb_to_recordset(%(messages)s::jsonb) AS v (
    position int, role text, is_real_user bool, superseded bool, name text, model text, parts jsonb, source_key text,
    content_hash text, created_at timestamptz, turn_number int
)
ORDER BY v.position
RETURNING position, id
