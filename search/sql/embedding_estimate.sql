-- What embedding some conversations in a space would take, as far as another space's rows can tell.
WITH todo AS MATERIALIZED (
    SELECT d.conversation_id, d.turn_number
    FROM search_turndocument AS d
    WHERE d.conversation_id = ANY(%(conversations)s) AND NOT EXISTS (
        SELECT FROM search_turnembedding AS e
        WHERE e.conversation_id = d.conversation_id AND e.space_id = %(target)s AND e.turn_number = d.turn_number
            AND e.content_hash = d.content_hash
    )
),
chunks AS (
    SELECT e.turn_number, e.conversation_id, e.chunk_number, e.token_count
    FROM todo INNER JOIN search_turnembedding AS e USING (conversation_id, turn_number)
    WHERE e.space_id = %(known)s
),
passages AS (
    SELECT DISTINCT ON (p.owner_id, p.content_hash) p.token_count
    FROM todo INNER JOIN memory_passage AS p USING (conversation_id, turn_number)
    WHERE p.space_id = %(known)s AND NOT EXISTS (
        SELECT FROM memory_passage AS same
        WHERE same.content_hash = p.content_hash AND same.owner_id = p.owner_id AND same.space_id = %(target)s
    )
)
SELECT
    (SELECT count(*) FROM todo),
    (SELECT count(*) FROM chunks WHERE chunk_number = 0),
    (SELECT count(*) FROM chunks) + (SELECT count(*) FROM passages),
    (SELECT coalesce(sum(token_count), 0) FROM chunks) + (SELECT coalesce(sum(token_count), 0) FROM passages),
    (SELECT count(*) FROM search_turndocument WHERE conversation_id = ANY(%(conversations)s))
