-- Keep the raw source lines of messages.
INSERT INTO conversations_messagesource (message_id, owner_id, data)
SELECT v.message_id, %(owner)s, v.data
FROM unnest(%(messages)s::bigint[], %(data)s::bytea[]) AS v (message_id, data)
