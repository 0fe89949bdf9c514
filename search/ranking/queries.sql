-- name: items_without_vectors
-- Those of some items of one owner that have no vector of their current text in a space.
SELECT array_agg(d.source_id), array_agg(d.number)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
LEFT JOIN search_itemembedding AS e
    ON e.source_id = d.source_id AND e.space_id = %(space)s AND e.item_number = d.number AND e.chunk_number = 0
    AND e.owner_id = d.owner_id
WHERE d.owner_id = %(owner)s AND (e.id IS NULL OR e.content_hash <> d.content_hash)

-- name: item_moments
-- When each of some items of one owner was written: sources, numbers and moments, each column as the bytes of its values.
SELECT
    string_agg(int8send(d.source_id), ''::bytea),
    string_agg(int4send(d.number), ''::bytea),
    string_agg(timestamptz_send(d.created_at), ''::bytea)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
WHERE d.owner_id = %(owner)s

-- name: sources_begun
-- Whether a conversation or document of the owner began within some days.
SELECT EXISTS (
    SELECT FROM search_source
    WHERE owner_id = %(owner)s AND version > 0 AND created_at >= %(first)s AND created_at < %(after_last)s
)
