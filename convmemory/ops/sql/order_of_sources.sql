-- The order of messages' raw sources by conversation, for an export whose reader walks both side by side.
(SELECT m.conversation_id FROM conversations_message AS m WHERE m.id = message_id),
(SELECT m.position FROM conversations_message AS m WHERE m.id = message_id)
