-- The blocks of signs of an owner's passages: ids, conversations, which pass the filters; the contents of those not held.
SELECT
    array_agg(e.id ORDER BY e.id),
    array_agg(e.conversation_id ORDER BY e.id),
    array_agg({filters} ORDER BY e.id),
    array_agg(e.places ORDER BY e.id) FILTER (WHERE held.id IS NULL),
    array_agg(e.signs ORDER BY e.id) FILTER (WHERE held.id IS NULL)
FROM memory_signblock AS e
LEFT JOIN unnest(%(held)s::bigint[]) AS held (id) ON held.id = e.id
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s
