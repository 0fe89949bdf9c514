-- Let index states speak of another space; where either space was behind, every turn is compared there.
UPDATE search_conversationindex AS i
SET
    space_id = %s,
    indexed_version = least(i.indexed_version, p.indexed_version),
    passages = p.passages,
    last_embedded_turn_number = p.turns - 1,
    dirty_from = CASE WHEN least(i.indexed_version, p.indexed_version) < c.turns_version THEN 0 END,
    attempts = 0,
    error = ''
FROM search_spaceprogress AS p
INNER JOIN conversations_conversation AS c ON c.id = p.conversation_id
WHERE p.conversation_id = i.conversation_id AND p.space_id = %s
