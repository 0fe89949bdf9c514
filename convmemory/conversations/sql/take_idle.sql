-- Mark one owner's idle conversation as processing, with room for a question at its end; the question's position.
UPDATE conversations_conversation
SET
    message_count = message_count + 1,
    updated_at = greatest(updated_at, %(asked_at)s),
    title = CASE title WHEN '' THEN %(title)s ELSE title END,
    status = 'processing',
    processing_until = %(until)s
WHERE id = %(conversation)s AND owner_id = %(owner)s AND status <> 'processing'
RETURNING message_count - 1
