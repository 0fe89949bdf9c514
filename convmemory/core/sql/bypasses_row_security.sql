-- Whether no policy applies to the current role: as superuser, by BYPASSRLS, or because it may act as a table's owner.
SELECT
    r.rolsuper OR r.rolbypassrls OR EXISTS (
        SELECT
        FROM pg_class AS c
        INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY(%s) AND c.relkind = 'r' AND pg_has_role(c.relowner, 'MEMBER')
    )
FROM pg_roles AS r
WHERE r.rolname = current_user
