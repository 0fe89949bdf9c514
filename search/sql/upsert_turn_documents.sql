-- Insert or replace the lexical documents of some turns of one conversation.
INSERT INTO search_turndocument
    (owner_id, conversation_id, turn_number, message_id, question, created_at, content_hash, length, error, lexemes)
SELECT
    %(owner)s, %(conversation)s, t.turn_number, t.message_id, t.question, t.created_at, t.content_hash, t.length, '',
    setweight(to_tsvector('english', t.a) || to_tsvector('simple', t.a), 'A')
    || setweight(to_tsvector('english', t.b) || to_tsvector('simple', t.b), 'B')
    || setweight(to_tsvector('english', t.c) || to_tsvector('simple', t.c), 'C')
    || setweight(to_tsvector('english', t.d) || to_tsvector('simple', t.d), 'D')
FROM unnest(
    %(turn_numbers)s::int[], %(message_ids)s::bigint[], %(questions)s::text[], %(created_at)s::timestamptz[],
    %(hashes)s::bytea[], %(lengths)s::int[], %(A)s::text[], %(B)s::text[], %(C)s::text[], %(D)s::text[]
) AS t (turn_number, message_id, question, created_at, content_hash, length, a, b, c, d)
ON CONFLICT (conversation_id, turn_number) DO UPDATE SET
    message_id = EXCLUDED.message_id,
    question = EXCLUDED.question,
    created_at = EXCLUDED.created_at,
    content_hash = EXCLUDED.content_hash,
    length = EXCLUDED.length,
    error = '',
    lexemes = EXCLUDED.lexemes
