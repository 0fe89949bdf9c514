-- The binary codes of the owner's item vectors in some sources, packed source by source. Where all sources are asked for,
-- the covering index alone is read.
SELECT
    e.source_id,
    string_agg(int8send(e.id) || int4send(e.item_number), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(e.code) FROM 5), ''::bytea ORDER BY e.id)
FROM search_itemembedding AS e
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.source_id = ANY(%(sources)s::bigint[])
GROUP BY e.source_id
