-- For each of some messages of one owner, the first passage of the question before it and of the answer that it is in.
-- A question's answer is the first one after it; what a tool put out is in the answer that called it.
SELECT
    t.message_id, found.role, found.element_id, found.part_index, found."start", found."end",
    substr(found.parts -> found.part_index::int ->> 'text', found."start" + 1, found."end" - found."start"),
    found.name, found."position"
FROM unnest(%(messages)s::bigint[]) AS t (message_id)
INNER JOIN conversations_message AS m ON m.id = t.message_id AND m.owner_id = %(owner)s
INNER JOIN LATERAL (
    SELECT p.source_id, p.item_number FROM search_passage AS p
    WHERE p.element_id = m.id AND p.owner_id = m.owner_id
    LIMIT 1
) AS home ON TRUE
CROSS JOIN LATERAL (
    (
        SELECT 'user' AS role, e.element_id, e.part_index, e."start", e."end", q.parts, q.name, q."position"
        FROM search_passage AS e
        INNER JOIN conversations_message AS q ON q.id = e.element_id AND q.owner_id = e.owner_id
        WHERE
            e.source_id = home.source_id AND e.item_number = home.item_number AND e.owner_id = m.owner_id
            AND q.is_real_user AND e.kind IN (%(question)s, %(outside)s) AND q."position" <= m."position"
        ORDER BY q."position" DESC, e.part_index, e."start"
        LIMIT 1
    )
    UNION ALL
    (
        SELECT 'assistant' AS role, e.element_id, e.part_index, e."start", e."end", a.parts, a.name, a."position"
        FROM search_passage AS e
        INNER JOIN conversations_message AS a ON a.id = e.element_id AND a.owner_id = e.owner_id
        WHERE
            e.source_id = home.source_id AND e.item_number = home.item_number AND e.owner_id = m.owner_id
            AND a.role = 'assistant' AND e.kind IN (%(answer)s, %(outside)s) AND (a."position" > m."position" OR NOT m.is_real_user)
        ORDER BY
            (a."position" > m."position") = m.is_real_user DESC, abs(a."position" - m."position"), e.part_index,
            e."start"
        LIMIT 1
    )
) AS found
