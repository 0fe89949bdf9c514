-- Insert or replace the lexical documents of some turns of one conversation.
WITH given AS MATERIALIZED (
    SELECT
        t.*,
        setweight(to_tsvector('convmemory', t.a), 'A') || setweight(to_tsvector('convmemory', t.b), 'B') AS spoken,
        setweight(to_tsvector('convmemory', t.c), 'C') || setweight(to_tsvector('convmemory', t.d), 'D') AS unspoken
    FROM unnest(
        %(turn_numbers)s::int[], %(message_ids)s::bigint[], %(questions)s::text[], %(created_at)s::timestamptz[],
        %(hashes)s::bytea[], %(lengths)s::int[], %(A)s::text[], %(B)s::text[], %(C)s::text[], %(D)s::text[]
    ) AS t (turn_number, message_id, question, created_at, content_hash, length, a, b, c, d)
)
INSERT INTO search_turndocument
    (owner_id, conversation_id, turn_number, message_id, question, created_at, content_hash, length, error,
     spoken, unspoken)
SELECT
    %(owner)s, %(conversation)s, turn_number, message_id, question, created_at, content_hash, length, '',
    spoken, unspoken
FROM given
ON CONFLICT (conversation_id, turn_number) DO UPDATE SET
    message_id = EXCLUDED.message_id,
    question = EXCLUDED.question,
    created_at = EXCLUDED.created_at,
    content_hash = EXCLUDED.content_hash,
    length = EXCLUDED.length,
    error = '',
    spoken = EXCLUDED.spoken,
    unspoken = EXCLUDED.unspoken
