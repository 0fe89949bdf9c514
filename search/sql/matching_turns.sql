-- The owner's turns that pass the filters.
SELECT array_agg(d.conversation_id), array_agg(d.turn_number)
FROM search_turndocument AS d
WHERE d.owner_id = %(owner)s AND {filters}
