-- name: take_rows
-- Keeps rows of one archive, in order, for the rest of the transaction, which continues in another archive.
CREATE TEMP TABLE {taken} AS {rows}

-- name: put_rows
-- Stores the kept rows in the present archive, in their order, with other values in some columns; the highest key.
WITH put AS (
    INSERT INTO {table} ({columns})
    SELECT {values}
    FROM {taken} AS t
    {messages}
    ORDER BY t.ctid
    RETURNING {key} AS key
)

SELECT max(put.key) FROM put

-- name: number_messages
-- The numbers of the kept messages, with those under which they were stored.
CREATE TEMP TABLE {numbers} AS
SELECT t.id AS taken, m.id AS put
FROM {taken} AS t
INNER JOIN conversations_message AS m ON m.position = t.position
WHERE m.owner_id = %(owner)s AND m.conversation_id = %(conversation)s

-- name: join_numbers
-- The part of `put_rows` for rows that belong to messages.
INNER JOIN {numbers} AS n ON n.taken = t.message_id

-- name: forget_rows
-- Drops what was kept.
DROP TABLE {taken}
