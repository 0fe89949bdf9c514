-- Note at the documents which turns the model of a space refused, and why.
UPDATE search_turndocument AS d
SET error = refusal.value
FROM search_spaceprogress AS p, jsonb_each_text(p.refused) AS refusal
WHERE p.space_id = %s AND d.conversation_id = p.conversation_id AND d.turn_number = refusal.key::int
