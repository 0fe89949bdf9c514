-- Pack the binary codes of a source's passages in one space, for some blocks of items. How: search/models.py.
INSERT INTO search_binarycodeblock (owner_id, source_id, space_id, number, entries, codes)
SELECT
    e.owner_id,
    e.source_id,
    e.space_id,
    e.item_number / %(items)s,
    string_agg(int8send(e.id) || int4send(e.item_number) || int2send(e.kind), ''::bytea ORDER BY e.id),
    string_agg(substring(bit_send(binary_quantize(e.embedding)) FROM 5), ''::bytea ORDER BY e.id)
FROM search_passage AS e
WHERE
    e.owner_id = %(owner)s AND e.source_id = %(source)s AND e.space_id = %(space)s
    AND e.item_number BETWEEN %(first)s AND %(last)s AND e.item_number / %(items)s = ANY(%(numbers)s)
GROUP BY e.owner_id, e.source_id, e.space_id, e.item_number / %(items)s
RETURNING number
