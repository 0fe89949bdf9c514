-- The events of one owner that contain all words of a query. The index knows the owner as a word (core/fields.py).
SELECT e.id
FROM conversations_event AS e
WHERE (array_to_tsvector(ARRAY['owner ' || e.owner_id::text]) || e.words) @@ (%s::tsquery && %s::tsquery)
