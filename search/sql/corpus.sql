-- How many items, words and passages each of the owner's sources of some kinds has, their object ids, and the ids of the
-- item vectors stored last; those that contain texts in languages other than English, and these. Passages and vectors are
-- those of one space.
SELECT
    array_agg(s.id),
    array_agg(s.item_count),
    array_agg(s.spoken_length),
    array_agg(coalesce(i.passages, 0)),
    array_agg(s.object_id),
    array_agg(coalesce(i.newest_vector, 0)),
    array_agg(s.id) FILTER (WHERE s.languages <> ''),
    array_agg(s.languages) FILTER (WHERE s.languages <> '')
FROM search_source AS s
LEFT JOIN search_sourceindex AS i ON i.source_id = s.id AND i.space_id = %(space)s::bigint
WHERE s.owner_id = %(owner)s AND s.item_count > 0
    AND (cardinality(%(kinds)s::text[]) = 0 OR s.kind = ANY(%(kinds)s::text[]))
