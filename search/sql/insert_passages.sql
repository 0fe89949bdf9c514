-- Insert passages of one conversation with the token vectors of those that have any.
WITH given AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('memory_passage', 'id')) AS id, t.*
    FROM unnest(
        %(messages)s::bigint[], %(hashes)s::uuid[], %(turns)s::int[], %(starts)s::int[], %(ends)s::int[],
        %(parts)s::smallint[], %(kinds)s::smallint[], %(token_counts)s::smallint[], %(vectors)s::text[],
        %(tokens)s::bytea[]
    ) AS t (message_id, content_hash, turn_number, "start", "end", part_index, kind, token_count, embedding, tokens)
),
passages AS (
    INSERT INTO memory_passage
        (id, owner_id, conversation_id, message_id, content_hash, space_id, turn_number, "start", "end", part_index,
         kind, token_count, embedding)
    SELECT
        id, %(owner)s, %(conversation)s, message_id, content_hash, %(space)s, turn_number, "start", "end", part_index,
        kind, token_count, embedding::halfvec
    FROM given
)
INSERT INTO memory_passagetokens (passage_id, owner_id, vectors)
SELECT id, %(owner)s, tokens FROM given WHERE tokens IS NOT NULL
