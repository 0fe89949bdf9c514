-- The contents of the given items of one owner for a page of results.
SELECT
    d.source_id, d.number, d.opening_id, d.heading, d.created_at, s.title, s.agent, s.project, s.kind, s.object_id
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
WHERE d.owner_id = %(owner)s
