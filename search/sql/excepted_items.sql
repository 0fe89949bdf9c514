-- The sources and item numbers of the turns that a search excludes, as two arrays.
SELECT array_agg(id), array_agg(number) FROM ({excepted}) AS excepted
