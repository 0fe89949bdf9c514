-- Heading, time and home of one owner's items by (source, number); what is gone has no row.
SELECT d.source_id, d.number, left(d.heading, 100), d.created_at, s.kind, s.object_id
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS wanted (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
WHERE d.owner_id = %(owner)s
