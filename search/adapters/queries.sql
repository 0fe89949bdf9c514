-- name: message_utterances
-- Who said some messages, who said the next one of each, and whether that one belongs to another turn. The place of the
-- next one is computed before it is looked up: a sum in the condition would keep it from its index under a policy. The
-- next one is the first from its place on: that order makes the planner look it up by its place. By an equal place alone
-- it read the whole conversation for each message, which it took to have one message.
WITH m AS MATERIALIZED (
    SELECT id, conversation_id, "position", "position" + 1 AS next_position, name, turn_number, owner_id
    FROM conversations_message
    WHERE id = ANY(%(messages)s::bigint[]) AND owner_id = %(owner)s
)

SELECT
    m.id,
    m."position",
    m.name,
    coalesce(n.name, ''),
    coalesce(n.turn_number <> m.turn_number, FALSE)
FROM m
LEFT JOIN LATERAL (
    SELECT f.name, f.turn_number, f."position"
    FROM conversations_message AS f
    WHERE f.owner_id = m.owner_id AND f.conversation_id = m.conversation_id AND f."position" >= m.next_position
    ORDER BY f."position"
    LIMIT 1
) AS n ON n."position" = m.next_position

-- name: messages_with
-- The newest of the owner's messages whose parts contain a text, letter for letter, among the newest ones. The sum keeps
-- the planner from walking through all owners' messages by id.
SELECT conversation_id, id
FROM (
    SELECT m.conversation_id, m.id, m.parts
    FROM conversations_message AS m
    WHERE m.owner_id = %(owner)s AND NOT m.superseded AND m.conversation_id NOT IN (
        SELECT c.id FROM conversations_conversation AS c
        WHERE c.owner_id = %(owner)s AND c.trashed_at IS NOT NULL
    )
    ORDER BY m.id + 0 DESC
    LIMIT %(scanned)s
) AS newest
WHERE strpos(parts::text, %(text)s) > 0
ORDER BY id DESC
LIMIT %(limit)s

-- name: sections_with
-- The newest of the owner's sections whose text or headings contain a text, letter for letter, among the newest ones. The
-- sum as above.
SELECT document_id, id
FROM (
    SELECT s.document_id, s.id, s.text, s.path
    FROM documents_section AS s
    WHERE s.owner_id = %(owner)s AND s.document_id NOT IN (
        SELECT d.id FROM documents_document AS d WHERE d.owner_id = %(owner)s AND d.trashed_at IS NOT NULL
    )
    ORDER BY s.id + 0 DESC
    LIMIT %(scanned)s
) AS newest
WHERE strpos(text, %(text)s) > 0 OR strpos(path::text, %(text)s) > 0
ORDER BY id DESC
LIMIT %(limit)s

-- name: reconcile_conversations
-- The conversations whose sources differ from them, and the sources whose conversations are gone, or in the trash and can be
-- found.
SELECT
    (
        SELECT array_agg(c.id)
        FROM conversations_conversation AS c
        LEFT JOIN search_source AS s ON s.owner_id = c.owner_id AND s.kind = 'conversation' AND s.object_id = c.id
        WHERE c.trashed_at IS NULL
            AND (
                s.id IS NULL
                OR (s.version, s.item_count, s.archived, s.title, s.agent, s.project, s.origin)
                    IS DISTINCT FROM
                    (c.turns_version, greatest(c.turn_count, least(c.message_count, 1)), c.archived_at IS NOT NULL, c.title, c.agent, c.project, c.source)
            )
    ),
    (
        SELECT array_agg(s.id)
        FROM search_source AS s
        WHERE s.kind = 'conversation'
            AND NOT EXISTS (
                SELECT FROM conversations_conversation AS c
                WHERE c.id = s.object_id AND c.owner_id = s.owner_id AND (c.trashed_at IS NULL OR s.version = 0)
            )
    )

-- name: reconcile_documents
-- The documents whose sources differ from them, and the sources whose documents are gone, or in the trash and
-- can be found.
SELECT
    (
        SELECT array_agg(d.id)
        FROM documents_document AS d
        LEFT JOIN search_source AS s ON s.owner_id = d.owner_id AND s.kind = 'document' AND s.object_id = d.id
        WHERE d.version > 0 AND d.trashed_at IS NULL
            AND (s.id IS NULL OR (s.version, s.item_count, s.title) IS DISTINCT FROM (d.version, d.section_count, d.title))
    ),
    (
        SELECT array_agg(s.id)
        FROM search_source AS s
        WHERE s.kind = 'document'
            AND NOT EXISTS (
                SELECT FROM documents_document AS d
                WHERE d.id = s.object_id AND d.owner_id = s.owner_id AND (d.trashed_at IS NULL OR s.version = 0)
            )
    )
