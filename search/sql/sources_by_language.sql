-- The owner's sources that contain texts in a language other than English, by language.
SELECT language, array_agg(s.id)
FROM search_source AS s, string_to_table(s.languages, ' ') AS language
WHERE s.owner_id = %(owner)s AND s.languages <> ''
GROUP BY language
