-- Whether whoever asks is held by no policy: as superuser, by BYPASSRLS, or because it may act as a table's owner.
SELECT
    r.rolsuper OR r.rolbypassrls OR EXISTS (
        SELECT
        FROM pg_class AS c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND pg_has_role(c.relowner, 'MEMBER')
    )
FROM pg_roles AS r
WHERE r.rolname = current_user
