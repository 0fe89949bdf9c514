-- name: state_of_chat
-- The agent that last answered in a conversation (0 for the server's own), else the owner's first agent, else 0; the last
-- question, if it was asked here; and whether a reply is being written.
SELECT
    coalesce(
        (
            SELECT coalesce(agent_id, 0) FROM chat_reply
            WHERE owner_id = %(owner)s AND conversation_id = %(conversation)s
            ORDER BY id DESC LIMIT 1
        ),
        (SELECT min(id) FROM chat_agent WHERE owner_id = %(owner)s),
        0
    ),
    (
        SELECT max(r.question_id) FROM chat_reply AS r
        WHERE
            r.owner_id = %(owner)s AND r.conversation_id = %(conversation)s
            AND r.question_id = (
                SELECT m.id FROM conversations_message AS m
                WHERE
                    m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s AND m.is_real_user
                    AND NOT m.superseded
                ORDER BY m."position" DESC LIMIT 1
            )
    ),
    EXISTS (
        SELECT FROM chat_reply
        WHERE owner_id = %(owner)s AND conversation_id = %(conversation)s AND status = 'running'
    )

-- name: one_recording_at_a_time
-- Wait for an advisory lock on the recordings of an owner, which is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s, %s)
