-- By the place of each phrase in the list, how many of some items of one owner contain it.
SELECT p.place - 1, count(d.id)
FROM unnest(%(phrases)s::text[]) WITH ORDINALITY AS p (phrase, place)
LEFT JOIN (
    SELECT i.id, i.spoken, i.unspoken
    FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
    INNER JOIN search_item AS i USING (source_id, number)
    WHERE i.owner_id = %(owner)s
) AS d ON d.spoken @@ ({phrase}) OR d.unspoken @@ ({phrase})
GROUP BY p.place
ORDER BY p.place
