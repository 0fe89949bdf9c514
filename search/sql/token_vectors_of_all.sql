-- Token vectors of the passages of some items in a space, if they still cover every token of the text.
SELECT e.id, e.content_hash, e.token_count, k.vectors
FROM search_passage AS e
INNER JOIN search_tokenvectors AS k ON k.passage_id = e.id AND k.owner_id = e.owner_id
WHERE
    e.owner_id = %(owner)s
    AND e.source_id = %(source)s
    AND e.space_id = %(space)s
    AND e.item_number = ANY(%(items)s::int[])
    AND octet_length(k.vectors) = e.token_count * %(width)s
