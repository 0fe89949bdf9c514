-- Delete rows of a derived table with a foreign owner, or of turns that are gone; token vectors go with passages.
WITH orphans AS MATERIALIZED (
    SELECT r.id
    FROM {table} AS r
    INNER JOIN conversations_conversation AS c ON c.id = r.conversation_id
    LEFT JOIN search_conversationindex AS i ON i.conversation_id = r.conversation_id
    WHERE
        r.owner_id <> c.owner_id
        OR (r.turn_number >= c.turn_count AND i.indexed_version = c.turns_version)
),
tokens AS (
    DELETE FROM memory_passagetokens
    WHERE '{table}' = 'memory_passage' AND passage_id IN (SELECT id FROM orphans)
)
DELETE FROM {table} WHERE id IN (SELECT id FROM orphans)
