-- Replace the token vectors of some passages, and delete those that became empty.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(passages)s::bigint[], %(vectors)s::bytea[]) AS t (passage_id, vectors)
),
emptied AS (
    DELETE FROM search_tokenvectors AS k
    USING given
    WHERE k.passage_id = given.passage_id AND k.owner_id = %(owner)s AND octet_length(given.vectors) = 0
)
UPDATE search_tokenvectors AS k
SET vectors = given.vectors
FROM given
WHERE k.passage_id = given.passage_id AND k.owner_id = %(owner)s AND octet_length(given.vectors) > 0
