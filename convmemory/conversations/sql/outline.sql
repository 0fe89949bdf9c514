-- The question that opens each turn of a conversation, from one turn on, shortened.
SELECT DISTINCT ON (turn_number)
       turn_number,
       coalesce(left(jsonb_path_query_first(parts, '$[*] ? (@.type == "text").text') #>> '{}', 400), '')
FROM conversations_message
WHERE owner_id = %s AND conversation_id = %s AND is_real_user AND turn_number >= %s
ORDER BY turn_number, position
LIMIT %s
