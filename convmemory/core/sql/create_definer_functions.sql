-- Creates the functions that bypass the policies: whose a key is, whether somebody has signed in from an address, and
-- how many tasks wait. They run as the tables' owner.
DO $body$
DECLARE
    path text := format('%I, pg_temp', current_schema());
    part text;
BEGIN
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_owner_of_key(key_hash bytea, recorded_every interval)
        RETURNS TABLE (owner_id bigint, read_only boolean)
        LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = %s AS
        $key$
            WITH found AS (
                SELECT k.id, k.owner_id, k.read_only
                FROM accounts_apikey AS k
                WHERE k.key_hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
            ),

            noted AS (
                UPDATE accounts_apikey AS k
                SET last_used_at = now()
                FROM found
                INNER JOIN auth_user AS u ON u.id = found.owner_id AND u.is_active
                WHERE k.id = found.id AND (k.last_used_at IS NULL OR k.last_used_at < now() - $2)
            )

            SELECT found.owner_id::bigint, found.read_only FROM found
        $key$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_waiting_tasks(due_by timestamptz, at_most int)
        RETURNS bigint
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %s AS
        $count$
            SELECT count(*)
            FROM (
                SELECT FROM core_ownertask AS t
                WHERE (t.leased_until IS NULL OR t.leased_until <= $1) AND t.due_at <= $1
                LIMIT $2
            ) AS waiting
        $count$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_knows_address(name text, address bytea)
        RETURNS boolean
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %s AS
        $known$
            SELECT EXISTS (
                SELECT
                FROM sign_in_knownaddress AS k
                INNER JOIN auth_user AS u ON u.id = k.owner_id
                WHERE u.username = $1 AND k.address_hash = $2
            )
        $known$
        $function$,
        path
    );
    REVOKE ALL ON FUNCTION convmemory_owner_of_key, convmemory_waiting_tasks, convmemory_knows_address FROM PUBLIC;
    FOREACH part IN ARRAY ARRAY['convmemory_app', 'convmemory_maintenance'] LOOP
        CONTINUE WHEN to_regrole(part) IS NULL;
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION convmemory_owner_of_key, convmemory_waiting_tasks, convmemory_knows_address TO %I',
            part
        );
    END LOOP;
END
$body$
