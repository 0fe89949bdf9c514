-- How many items of one owner, or of everybody if the owner is null, exist, wait, were given up and failed.
WITH state AS (
    SELECT
        s.item_count,
        s.element_count,
        coalesce(i.passages, 0) AS passages,
        CASE
            WHEN s.version = 0 THEN 0
            WHEN i.id IS NULL THEN s.item_count
            WHEN i.indexed_version = s.version AND i.error = '' THEN 0
            WHEN i.dirty_from IS NOT NULL THEN greatest(s.item_count - i.dirty_from, 0) + (s.item_count = 0)::int
            ELSE s.item_count
        END AS behind,
        coalesce(i.error <> '' AND i.attempts >= %(max_attempts)s, FALSE) AS given_up
    FROM search_source AS s
    LEFT JOIN search_sourceindex AS i ON i.source_id = s.id AND i.space_id = %(space)s
    WHERE %(owner)s::bigint IS NULL OR s.owner_id = %(owner)s::bigint
)
SELECT
    count(*),
    coalesce(sum(item_count), 0),
    coalesce(sum(element_count), 0),
    coalesce(sum(passages), 0),
    coalesce(sum(behind) FILTER (WHERE NOT given_up), 0),
    coalesce(sum(behind) FILTER (WHERE given_up), 0),
    (
        SELECT count(*) FROM search_item AS d
        WHERE (%(owner)s::bigint IS NULL OR d.owner_id = %(owner)s::bigint) AND d.error <> ''
    )
FROM state
