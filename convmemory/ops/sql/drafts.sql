-- The schemas that an unfinished distribution left behind.
SELECT n.nspname FROM pg_namespace AS n WHERE n.nspname ~ '^distributing_(?:[0-9]+|ids)$'
