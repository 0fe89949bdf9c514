-- The tables with `owner_id` that lack the policy, or on which it is off.
SELECT CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
WHERE
    n.nspname = ANY(%s) AND c.relkind IN ('r', 'p')
    AND NOT (
        c.relrowsecurity AND EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid AND p.polname = 'owner_alone')
    )
ORDER BY name
