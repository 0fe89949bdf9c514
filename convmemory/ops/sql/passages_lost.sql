-- Sources that count as indexed but hold another number of passages in a space than was stored, or whose blocks of
-- binary codes are not their owner's or hold others than there are.
WITH current AS (
    SELECT i.source_id, s.owner_id, i.passages
    FROM search_sourceindex AS i
    INNER JOIN search_source AS s ON s.id = i.source_id AND s.version = i.indexed_version
    WHERE i.space_id = %(space)s
),
stored AS (
    SELECT source_id, item_number / %(items)s AS number, count(*) AS passages
    FROM search_passage
    WHERE space_id = %(space)s
    GROUP BY source_id, item_number / %(items)s
),
packed AS (
    SELECT source_id, owner_id, number, octet_length(entries) / %(entry_bytes)s AS passages
    FROM search_binarycodeblock
    WHERE space_id = %(space)s
)
SELECT current.source_id
FROM current
LEFT JOIN (
    SELECT source_id, sum(passages) AS passages FROM stored GROUP BY source_id
) AS s ON s.source_id = current.source_id
WHERE current.passages <> coalesce(s.passages, 0)
UNION
SELECT current.source_id
FROM stored FULL JOIN packed USING (source_id, number)
INNER JOIN current USING (source_id)
WHERE stored.passages IS DISTINCT FROM packed.passages OR packed.owner_id <> current.owner_id
