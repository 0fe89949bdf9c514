-- Note that a conversation's turns changed from some turn on.
INSERT INTO search_conversationindex
    (conversation_id, owner_id, indexed_version, noted_version, dirty_from, last_embedded_turn_number,
     spoken_length, passages, attempts, error, updated_at)
VALUES (%s, %s, 0, 1, %s, -1, 0, 0, 0, '', now())
ON CONFLICT (conversation_id) DO UPDATE SET
    noted_version = search_conversationindex.noted_version + 1,
    dirty_from = least(coalesce(search_conversationindex.dirty_from, EXCLUDED.dirty_from), EXCLUDED.dirty_from),
    attempts = 0,
    error = ''
