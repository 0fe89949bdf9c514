-- Store the raw source lines of messages, given as one JSON array.
INSERT INTO conversations_messagesource (message_id, owner_id, data)
SELECT v.message, %(owner)s, decode(v.data, 'base64')
FROM jsonb_to_recordset(%(sources)s::jsonb) AS v (message bigint, data text)
RETURNING message_id
