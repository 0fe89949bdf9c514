-- Sources whose blocks of postings do not belong to their owner, or do not match their items.
WITH stored AS (
    SELECT source_id, number / %(items)s AS block, count(*) AS items
    FROM search_item
    GROUP BY source_id, number / %(items)s
),
packed AS (
    SELECT
        source_id,
        number AS block,
        min(octet_length(items)) / %(item_bytes)s AS items,
        count(*) = %(homes)s AND min(octet_length(items)) = max(octet_length(items)) AS is_whole,
        min(owner_id) AS least_owner,
        max(owner_id) AS greatest_owner
    FROM search_postingblock
    GROUP BY source_id, number
)
SELECT DISTINCT s.id
FROM stored
FULL JOIN packed USING (source_id, block)
INNER JOIN search_source AS s ON s.id = source_id
WHERE
    s.layout >= %(layout)s
    AND (
        stored.items IS DISTINCT FROM packed.items OR NOT packed.is_whole
        OR packed.least_owner <> s.owner_id OR packed.greatest_owner <> s.owner_id
    )
