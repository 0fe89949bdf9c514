-- Every account with what it has: messages and passages.
SELECT
    u.id,
    (SELECT count(*) FROM conversations_message AS m WHERE m.owner_id = u.id)
    + (SELECT count(*) FROM search_passage AS p WHERE p.owner_id = u.id)
FROM auth_user AS u
ORDER BY u.id
