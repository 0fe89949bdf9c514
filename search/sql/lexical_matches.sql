-- For each term of a query, the owner's turns that hold it in scope, with their ts_rank: one row a term.
WITH term AS (
    SELECT lexeme, ('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''':' || %(scope)s)::tsquery AS query
    FROM (
        SELECT unnest(tsvector_to_array(to_tsvector('english', %(text)s))) AS lexeme
        UNION
        SELECT word
        FROM unnest(tsvector_to_array(to_tsvector('simple', %(text)s))) AS word
        WHERE ts_lexize('english_stem', word) <> '{}'
            OR NOT EXISTS (SELECT FROM unnest(to_tsvector('english', %(text)s)))
    ) AS found
)
SELECT
    term.lexeme,
    array_agg(d.conversation_id),
    array_agg(d.turn_number),
    array_agg(ts_rank(%(weights)s::real[], d.lexemes, term.query)),
    array_agg(d.length)
FROM term
INNER JOIN search_turndocument AS d ON d.lexemes @@ term.query
INNER JOIN conversations_conversation AS c ON c.id = d.conversation_id
WHERE d.owner_id = %(owner)s AND {filters}
GROUP BY term.lexeme
