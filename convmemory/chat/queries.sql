-- name: usual_agent
-- The agent that last answered in a conversation (0 for the server's own), else the owner's first agent, else 0.
SELECT coalesce(
    (
        SELECT coalesce(agent_id, 0) FROM chat_reply
        WHERE owner_id = %(owner)s AND conversation_id = %(conversation)s
        ORDER BY id DESC LIMIT 1
    ),
    (SELECT min(id) FROM chat_agent WHERE owner_id = %(owner)s),
    0
)

-- name: one_recording_at_a_time
-- Wait for an advisory lock on the recordings of an owner, which is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s, %s)
