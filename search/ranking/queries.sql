-- name: mean_cosines
-- The cosine of a query and the mean vector of the items of each of some sources.
SELECT e.source_id, 1 - (avg(e.embedding) <=> %(vector)s::halfvec)
FROM search_itemembedding AS e
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.source_id = ANY(%(sources)s::bigint[])
GROUP BY e.source_id

-- name: item_vectors
-- The vectors of some items, each by its first chunk, in PostgreSQL's binary form of half precision.
SELECT array_agg(t.place), string_agg(substring(halfvec_send(e.embedding) FROM 5), ''::bytea)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) WITH ORDINALITY AS t (source_id, item_number, place)
INNER JOIN search_itemembedding AS e USING (source_id, item_number)
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s AND e.chunk_number = 0

-- name: items_without_vectors
-- Those of some items of one owner that have no vector of their current text in a space.
SELECT array_agg(d.source_id), array_agg(d.number)
FROM unnest(%(sources)s::bigint[], %(items)s::int[]) AS t (source_id, number)
INNER JOIN search_item AS d USING (source_id, number)
LEFT JOIN search_itemembedding AS e
    ON e.source_id = d.source_id AND e.space_id = %(space)s AND e.item_number = d.number AND e.chunk_number = 0
    AND e.owner_id = d.owner_id
WHERE d.owner_id = %(owner)s AND (e.id IS NULL OR e.content_hash <> d.content_hash)

-- name: late_passages
-- Some passages of one owner, by their ids, in one row: of each the place of its item, the size of its token vectors, its
-- element, whether it asks and the kind of its source; and all token vectors joined.
SELECT
    array_agg(t.item),
    string_agg(k.vectors, ''::bytea),
    array_agg(octet_length(k.vectors)),
    array_agg(e.element_id),
    array_agg(e.asks),
    array_agg(s.kind)
FROM unnest(%(ids)s::bigint[], %(items)s::int[]) AS t (id, item)
INNER JOIN search_passage AS e ON e.id = t.id
INNER JOIN search_source AS s ON s.id = e.source_id AND s.owner_id = e.owner_id
INNER JOIN search_tokenvectors AS k ON k.passage_id = e.id AND k.owner_id = e.owner_id
WHERE e.owner_id = %(owner)s AND e.space_id = %(space)s

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
    SELECT FROM search_source WHERE owner_id = %(owner)s AND created_at >= %(first)s AND created_at < %(after_last)s
)

-- name: repeated_questions
-- The contents of some items of one owner, and of those that have all words of a query, in their question too, the links to
-- turns in their first messages.
SELECT d.source_id, d.number, s.object_id, d.heading, d.created_at, s.origin, told.links
FROM unnest(%(sources)s::bigint[], %(items)s::int[], %(asked)s::bool[]) AS t (source_id, number, has_all)
INNER JOIN search_item AS d USING (source_id, number)
INNER JOIN search_source AS s ON s.id = d.source_id
LEFT JOIN LATERAL (
    SELECT string_agg(l.link[1], ' ') AS links
    FROM (
        SELECT m.parts
        FROM conversations_message AS m
        WHERE
            t.has_all AND d.heading ILIKE ALL(%(beginnings)s::text[]) AND s.kind = 'conversation'
            AND m.owner_id = d.owner_id AND m.conversation_id = s.object_id AND m.turn_number = d.number
        ORDER BY m."position"
        LIMIT %(messages)s
    ) AS first_ones
    CROSS JOIN LATERAL regexp_matches(first_ones.parts::text, '/conversations/[0-9]{1,18}[?]turn=[0-9]{1,9}', 'g') AS l (link)
) AS told ON TRUE
WHERE d.owner_id = %(owner)s
