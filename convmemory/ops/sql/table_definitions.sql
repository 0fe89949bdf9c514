-- The statements that make tables like these along the search path, in their order: what comes before their rows are
-- copied, and what comes after. They name no schema but that of the tables that they are like.
WITH tables AS (
    SELECT c.oid, c.relname, c.relnamespace::regnamespace AS place, c.reloptions, t.reloptions AS toast_options
    FROM pg_class AS c
    LEFT JOIN pg_class AS t ON t.oid = c.reltoastrelid
    WHERE c.oid = ANY(SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name)
)

SELECT step, statement
FROM (
    SELECT 1 AS step, t.relname AS name, format(
        'CREATE TABLE %%I (LIKE %%s.%%I INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY)', t.relname, t.place, t.relname
    ) AS statement
    FROM tables AS t

    UNION ALL
    SELECT 2, t.relname, format('ALTER TABLE %%I SET (%%s)', t.relname, array_to_string(t.reloptions, ', '))
    FROM tables AS t
    WHERE t.reloptions IS NOT NULL

    UNION ALL
    SELECT 2, t.relname, format(
        'ALTER TABLE %%I SET (%%s)', t.relname,
        (SELECT string_agg('toast.' || said, ', ') FROM unnest(t.toast_options) AS said)
    )
    FROM tables AS t
    WHERE t.toast_options IS NOT NULL

    UNION ALL
    SELECT 3, c.conname, format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', t.relname, c.conname, pg_get_constraintdef(c.oid))
    FROM tables AS t
    INNER JOIN pg_constraint AS c ON c.conrelid = t.oid AND c.contype IN ('p', 'u', 'x')

    UNION ALL
    SELECT 4, x.relname, pg_get_indexdef(i.indexrelid, 0, true)
    FROM tables AS t
    INNER JOIN pg_index AS i ON i.indrelid = t.oid AND i.indisvalid
    INNER JOIN pg_class AS x ON x.oid = i.indexrelid
    WHERE NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))

    UNION ALL
    SELECT 5, c.conname, format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', t.relname, c.conname, pg_get_constraintdef(c.oid))
    FROM tables AS t
    INNER JOIN pg_constraint AS c ON c.conrelid = t.oid AND c.contype = 'f'
) AS statements
ORDER BY step, name, statement
