-- Turns that hold a word: what must use the index of the words, whoever asks.
SELECT d.conversation_id FROM search_turndocument AS d WHERE d.spoken @@ to_tsquery('simple', %(word)s)
