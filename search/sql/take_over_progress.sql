-- Let index states speak of another space; where either space was behind, the sweep finds it.
UPDATE search_conversationindex AS i
SET
    space_id = %s,
    indexed_version = least(i.indexed_version, p.indexed_version),
    passages = p.passages,
    last_embedded_turn_number = p.turns - 1,
    dirty_from = NULL,
    attempts = 0,
    error = ''
FROM search_spaceprogress AS p
WHERE p.conversation_id = i.conversation_id AND p.space_id = %s
