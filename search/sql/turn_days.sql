-- On which day (counted from 1970-01-01, UTC) each of some turns of one owner was written.
SELECT
    array_agg(d.conversation_id),
    array_agg(d.turn_number),
    array_agg((d.created_at AT TIME ZONE 'UTC')::date - DATE '1970-01-01')
FROM unnest(%(conversations)s::bigint[], %(turns)s::int[]) AS t (conversation_id, turn_number)
INNER JOIN search_turndocument AS d USING (conversation_id, turn_number)
WHERE d.owner_id = %(owner)s
