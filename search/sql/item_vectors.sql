-- The vectors of some items, each by its first chunk, in PostgreSQL's binary form of half precision.
SELECT array_agg(t.place), string_agg(substring(halfvec_send(e.embedding) FROM 5), ''::bytea)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) WITH ORDINALITY AS t (source_id, item_number, place)
INNER JOIN search_itemembedding AS e USING (source_id, item_number)
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.chunk_number = 0
