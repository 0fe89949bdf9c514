-- Record at the items which of them the model of a space refused, and why.
UPDATE search_item AS d
SET error = refusal.value
FROM search_sourceindex AS p, jsonb_each_text(p.refused) AS refusal
WHERE p.space_id = %(space)s AND d.source_id = p.source_id AND d.number = refusal.key::int
