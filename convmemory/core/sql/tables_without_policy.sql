-- The tables with `owner_id` that lack the policy, or on which it is off.
SELECT c.relname
FROM pg_class AS c
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
WHERE
    c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT (
        c.relrowsecurity AND EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polname = 'owner_alone')
    )
ORDER BY c.relname
