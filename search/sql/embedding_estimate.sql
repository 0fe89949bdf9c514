-- What embedding some sources in a space would take, as far as another space's rows can tell.
WITH todo AS MATERIALIZED (
    SELECT d.source_id, d.number AS item_number
    FROM search_item AS d
    WHERE d.source_id = ANY(%(sources)s) AND NOT EXISTS (
        SELECT FROM search_itemembedding AS e
        WHERE e.source_id = d.source_id AND e.space_id = %(target)s AND e.item_number = d.number
            AND e.content_hash = d.content_hash
    )
),
chunks AS (
    SELECT e.item_number, e.source_id, e.chunk_number, e.token_count
    FROM todo INNER JOIN search_itemembedding AS e USING (source_id, item_number)
    WHERE e.space_id = %(known)s
),
passages AS (
    SELECT DISTINCT ON (p.owner_id, p.content_hash) p.token_count
    FROM todo INNER JOIN search_passage AS p USING (source_id, item_number)
    WHERE p.space_id = %(known)s AND NOT EXISTS (
        SELECT FROM search_passage AS same
        WHERE same.content_hash = p.content_hash AND same.owner_id = p.owner_id AND same.space_id = %(target)s
    )
)
SELECT
    (SELECT count(*) FROM todo),
    (SELECT count(*) FROM chunks WHERE chunk_number = 0),
    (SELECT count(*) FROM chunks) + (SELECT count(*) FROM passages),
    (SELECT coalesce(sum(token_count), 0) FROM chunks) + (SELECT coalesce(sum(token_count), 0) FROM passages),
    (SELECT count(*) FROM search_item WHERE source_id = ANY(%(sources)s))
