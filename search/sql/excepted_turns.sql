-- The source and item number of each turn that a search excludes.
SELECT s.id, x.number
FROM unnest(%(excepted_conversations)s::bigint[], %(excepted_numbers)s::int[]) AS x (conversation, number)
INNER JOIN search_source AS s ON s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.object_id = x.conversation
