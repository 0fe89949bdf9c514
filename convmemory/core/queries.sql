-- name: create_definer_functions
-- Creates the functions that bypass the policies: whose a key is, whose a share link is, whose an identity is, whether
-- a person has signed in from an address, which spaces a person or a key may read, when these changed last, how many
-- messages they have at which time, to which the person is invited, how much a person's waiting uploads in all archives
-- are, and one that counts repeated acts in the audit log, of the person who acts. They run as the tables' owner.
DO $body$
DECLARE
    path text := format('%I, pg_temp', current_schema());
    part text;
BEGIN
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_caller_of_key(key_hash bytea, recorded_every interval)
        RETURNS TABLE (person_id int, key_id bigint, is_read_only boolean, writes_spaces boolean, spaces jsonb)
        LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = %s AS
        $key$
            WITH found AS (
                SELECT k.id, k.owner_id, k.read_only, k.writes_spaces, k.space_ids
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

            SELECT
                found.owner_id, found.id, found.read_only, found.writes_spaces,
                coalesce(
                    (
                        SELECT jsonb_agg(jsonb_build_array(m.archive_id, a.name, m.role) ORDER BY a.name, m.id)
                        FROM accounts_membership AS m
                        INNER JOIN accounts_archive AS a ON a.id = m.archive_id
                        WHERE m.person_id = found.owner_id
                            AND (found.space_ids IS NULL OR m.archive_id = ANY(found.space_ids))
                    ),
                    '[]'
                )
            FROM found
        $key$
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
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_owner_of_identity(issuer text, subject text)
        RETURNS bigint
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %s AS
        $linked$
            SELECT i.owner_id::bigint FROM sign_in_linkedidentity AS i WHERE i.issuer = $1 AND i.subject = $2
        $linked$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_role_in_space()
        RETURNS text
        LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = %s AS
        $role$
            SELECT m.role
            FROM accounts_membership AS m
            WHERE
                m.archive_id = nullif(current_setting('convmemory.owner', true), '')::int
                AND m.person_id = nullif(current_setting('convmemory.person', true), '')::int
        $role$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_spaces()
        RETURNS SETOF int
        LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = %s AS
        $spaces$
            SELECT m.archive_id
            FROM accounts_membership AS m
            WHERE
                m.person_id = coalesce(
                    nullif(current_setting('convmemory.person', true), ''),
                    nullif(current_setting('convmemory.owner', true), '')
                )::int
        $spaces$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_changes_of_spaces()
        RETURNS TABLE (space_id int, changed_at timestamptz)
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = every_group, %s AS
        $changes$
        BEGIN
            -- One space after the other: on nodes, no plan joins their members with the tables of all groups.
            FOR space_id IN SELECT convmemory_spaces() LOOP
                changed_at := greatest(
                    (
                        SELECT c.updated_at
                        FROM conversations_conversation AS c
                        WHERE c.owner_id = space_id
                        ORDER BY c.updated_at DESC
                        LIMIT 1
                    ),
                    (SELECT d.updated_at FROM documents_document AS d WHERE d.owner_id = space_id ORDER BY d.id DESC LIMIT 1)
                );
                RETURN NEXT;
            END LOOP;
        END
        $changes$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_messages_of_spaces(chars int, first text, last text)
        RETURNS TABLE (space_id int, period text, messages bigint)
        LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = every_group, %s AS
        $messages$
        BEGIN
            FOR space_id IN SELECT convmemory_spaces() LOOP
                RETURN QUERY
                SELECT convmemory_messages_of_spaces.space_id, left(day.key, chars), sum((day.value ->> 0)::bigint)::bigint
                FROM conversations_figures AS f
                INNER JOIN conversations_conversation AS c ON c.owner_id = f.owner_id AND c.id = f.conversation_id
                CROSS JOIN LATERAL jsonb_each(f.days) AS day
                WHERE
                    f.owner_id = convmemory_messages_of_spaces.space_id AND c.trashed_at IS NULL AND c.archived_at IS NULL
                    AND day.key COLLATE "C" BETWEEN first AND last
                GROUP BY 2
                UNION ALL
                SELECT convmemory_messages_of_spaces.space_id, '', count(*)
                FROM conversations_conversation AS c
                LEFT JOIN conversations_figures AS f
                    ON f.owner_id = c.owner_id AND f.conversation_id = c.id
                    AND f.turns_version = c.turns_version AND f.message_count = c.message_count
                    AND f.hours IS NOT NULL AND f.points IS NOT NULL
                WHERE
                    c.owner_id = convmemory_messages_of_spaces.space_id AND c.trashed_at IS NULL AND f.id IS NULL
                    AND first = ''
                HAVING count(*) > 0;
            END LOOP;
        END
        $messages$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_invitations(since timestamptz)
        RETURNS TABLE (id bigint, space_id int, space_name text, role text, invited_by text, invited_at timestamptz)
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %s AS
        $invitations$
            SELECT i.id, i.archive_id, a.name, i.role, u.username, i.invited_at
            FROM accounts_spaceinvitation AS i
            INNER JOIN accounts_archive AS a ON a.id = i.archive_id
            INNER JOIN auth_user AS u ON u.id = i.invited_by_id AND u.is_active
            INNER JOIN accounts_membership AS m
                ON m.archive_id = i.archive_id AND m.person_id = i.invited_by_id AND m.role = 'manager'
            WHERE
                i.person_id = coalesce(
                    nullif(current_setting('convmemory.person', true), ''),
                    nullif(current_setting('convmemory.owner', true), '')
                )::int
                AND i.withdrawn_at IS NULL
                AND i.invited_at > $1
                AND (i.declined_at IS NULL OR i.declined_at <= $1)
                AND i.archive_id NOT IN (SELECT convmemory_spaces())
        $invitations$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_owner_of_share_link(token_hash bytea)
        RETURNS bigint
        LANGUAGE sql STABLE SECURITY DEFINER SET search_path = %s AS
        $shared$
            SELECT l.owner_id::bigint
            FROM accounts_sharelink AS l
            INNER JOIN auth_user AS u ON u.id = l.owner_id AND u.is_active
            WHERE l.token_hash = $1 AND (l.expires_at IS NULL OR l.expires_at > now())
        $shared$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_archive_of(kind text, number bigint)
        RETURNS int
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = every_group, %s AS
        $archive$
        DECLARE
            owner int;
        BEGIN
            IF kind = 'conversation' THEN
                SELECT c.owner_id INTO owner FROM conversations_conversation AS c WHERE c.id = number;
            ELSIF kind = 'document' THEN
                SELECT d.owner_id INTO owner FROM documents_document AS d WHERE d.id = number;
            ELSIF kind = 'import' THEN
                SELECT i.owner_id INTO owner FROM conversations_import AS i WHERE i.id = number;
            END IF;
            RETURN CASE
                WHEN owner::text IN (current_setting('convmemory.owner', true), current_setting('convmemory.person', true))
                    OR owner IN (SELECT convmemory_spaces())
                    THEN owner
            END;
        END
        $archive$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_waiting_uploads()
        RETURNS TABLE (uploads bigint, bytes numeric)
        LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = every_group, %s AS
        $waiting$
        DECLARE
            acting int := coalesce(
                nullif(current_setting('convmemory.person', true), ''),
                nullif(current_setting('convmemory.owner', true), '')
            )::int;
        BEGIN
            RETURN QUERY
            SELECT count(*), coalesce(sum(i.size), 0)
            FROM conversations_import AS i
            WHERE i.state IN ('queued', 'running') AND coalesce(i.started_by, i.owner_id) = acting;
        END
        $waiting$
        $function$,
        path
    );
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION convmemory_count_act(lock int, action text, surface text, about int, what text)
        RETURNS void
        LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = %s AS
        $counted$
        #variable_conflict use_column
        DECLARE
            person int := coalesce(
                nullif(current_setting('convmemory.person', true), ''),
                nullif(current_setting('convmemory.owner', true), '')
            );
        BEGIN
            -- Two requests at once would each find no entry and add one.
            PERFORM pg_advisory_xact_lock($1, hashtext($5));
            UPDATE accounts_auditentry AS e
            SET times = e.times + 1
            WHERE e.id = (
                SELECT c.id
                FROM accounts_auditentry AS c
                WHERE
                    c.times IS NOT NULL AND c.what = $5 AND c.created_at >= date_trunc('hour', now())
                    AND c.action = $2 AND c.surface = $3 AND c.person_id IS NOT DISTINCT FROM person
                    AND c.about_id IS NOT DISTINCT FROM $4
                ORDER BY c.id
                LIMIT 1
            );
            IF NOT FOUND THEN
                INSERT INTO accounts_auditentry (created_at, action, surface, person_id, about_id, what, times)
                VALUES (now(), $2, $3, person, $4, $5, 1);
            END IF;
        END
        $counted$
        $function$,
        path
    );
    REVOKE ALL ON FUNCTION
    convmemory_caller_of_key, convmemory_knows_address, convmemory_owner_of_identity,
    convmemory_role_in_space, convmemory_spaces, convmemory_changes_of_spaces, convmemory_messages_of_spaces,
    convmemory_invitations, convmemory_archive_of, convmemory_owner_of_share_link, convmemory_waiting_uploads, convmemory_count_act
    FROM PUBLIC;
    FOREACH part IN ARRAY ARRAY['convmemory_app', 'convmemory_maintenance'] LOOP
        CONTINUE WHEN to_regrole(part) IS NULL;
        EXECUTE format(
            'GRANT EXECUTE ON FUNCTION convmemory_caller_of_key, convmemory_knows_address, '
            'convmemory_owner_of_identity, convmemory_role_in_space, convmemory_spaces, '
            'convmemory_changes_of_spaces, convmemory_messages_of_spaces, convmemory_invitations, convmemory_archive_of, '
            'convmemory_owner_of_share_link, convmemory_waiting_uploads, convmemory_count_act TO %I',
            part
        );
    END LOOP;
END
$body$

-- name: apply_policies
-- Puts policies on every table with `owner_id`, also those of extensions, and on the tables of spaces; replaces those of
-- versions without spaces; idempotent.
DO $body$
DECLARE
    owned record;
    mine text;
    knows_members bool := to_regprocedure('convmemory_role_in_space()') IS NOT NULL;
    no_person text := 'nullif(current_setting(''convmemory.person'', true), '''') IS NULL';
    role text := 'convmemory_role_in_space()';
    condition text := '(SELECT %s OR %s)';  -- once a statement (InitPlan), because it reads no column
    may_read text;
    may_write text;
BEGIN
    -- The nodes of a cluster have no table of members, and refuse policies with a SELECT: they are sent the role.
    IF current_schema() ~ '^(?:group|distributing)_' THEN
        role := 'nullif(current_setting(''convmemory.role'', true), '''')';
        condition := '(%s OR %s)';
    END IF;
    may_read := format(condition, no_person, role || ' IS NOT NULL');
    may_write := format(condition, no_person, role || ' IN (''contributor'', ''manager'')');
    FOR owned IN
        SELECT
            c.oid::regclass AS name, c.relrowsecurity AS is_on, format_type(a.atttypid, NULL) AS owner_type,
            p.polname IS NOT NULL AS has_policy,
            coalesce(pg_get_expr(p.polqual, p.polrelid) LIKE '%convmemory_role%', false) AS knows_members
        FROM pg_class AS c
        INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
        LEFT JOIN pg_policy AS p ON p.polrelid = c.oid AND p.polname = 'owner_alone'
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    LOOP
        IF NOT owned.has_policy OR owned.knows_members <> knows_members THEN
            mine := format('owner_id = nullif(current_setting(''convmemory.owner'', true), '''')::%s', owned.owner_type);
            EXECUTE format('DROP POLICY IF EXISTS owner_alone ON %s', owned.name);
            EXECUTE format('DROP POLICY IF EXISTS readers_delete_nothing ON %s', owned.name);
            IF knows_members THEN
                EXECUTE format(
                    'CREATE POLICY owner_alone ON %s USING (%s AND %s) WITH CHECK (%s AND %s)',
                    owned.name, mine, may_read, mine, may_write
                );
                EXECUTE format(
                    'CREATE POLICY readers_delete_nothing ON %s AS RESTRICTIVE FOR DELETE USING (%s)',
                    owned.name, may_write
                );
            ELSE
                EXECUTE format('CREATE POLICY owner_alone ON %s USING (%s) WITH CHECK (%s)', owned.name, mine, mine);
            END IF;
        END IF;
        IF NOT owned.is_on THEN
            EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned.name);
        END IF;
    END LOOP;
    -- Requests enqueue tasks of the installation, which have no owner.
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polname = 'of_installation') AND to_regclass('core_ownertask') IS NOT NULL THEN
        CREATE POLICY of_installation ON core_ownertask USING (owner_id IS NULL) WITH CHECK (owner_id IS NULL);
    END IF;
    -- An entry of the audit log is of now, and of the person who acts.
    IF
        to_regclass('accounts_auditentry') IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_policy WHERE polname = 'acts_of_person')
    THEN
        CREATE POLICY acts_of_person ON accounts_auditentry FOR INSERT WITH CHECK (
            created_at = now()
            AND (
                person_id IS NULL
                OR person_id = coalesce(
                    nullif(current_setting('convmemory.person', true), ''),
                    nullif(current_setting('convmemory.owner', true), '')
                )::int
            )
        );
        ALTER TABLE accounts_auditentry ENABLE ROW LEVEL SECURITY;
    END IF;
    -- No policy lets the application change spaces, members or invitations: this is done as maintenance, once the role of
    -- the manager, or the invited person's consent, was checked. Of an invitation only the invited person reads the row,
    -- which says whether they declined.
    FOR owned IN
        SELECT
            c.oid::regclass AS name, c.relname = 'accounts_archive' AS is_archive,
            c.relname = 'accounts_spaceinvitation' AS is_invitation
        FROM pg_class AS c
        LEFT JOIN pg_policy AS p ON p.polrelid = c.oid AND p.polname = 'members_read'
        WHERE
            c.relnamespace = current_schema()::regnamespace
            AND c.relname IN ('accounts_archive', 'accounts_membership', 'accounts_spaceinvitation')
            AND to_regprocedure('convmemory_spaces()') IS NOT NULL AND NOT (c.relrowsecurity AND p.polname IS NOT NULL)
    LOOP
        EXECUTE format('DROP POLICY IF EXISTS members_read ON %s', owned.name);
        IF owned.is_archive THEN
            EXECUTE format(
                'CREATE POLICY members_read ON %s FOR SELECT USING ('
                'id = nullif(current_setting(''convmemory.owner'', true), '''')::int '
                'OR id = nullif(current_setting(''convmemory.person'', true), '''')::int '
                'OR id IN (SELECT convmemory_spaces()))',
                owned.name
            );
            EXECUTE format('DROP POLICY IF EXISTS own_is_made ON %s', owned.name);
            EXECUTE format('CREATE POLICY own_is_made ON %s FOR INSERT WITH CHECK (kind = ''own'')', owned.name);
        ELSIF owned.is_invitation THEN
            EXECUTE format(
                'CREATE POLICY members_read ON %s FOR SELECT USING (person_id = coalesce('
                'nullif(current_setting(''convmemory.person'', true), ''''), '
                'nullif(current_setting(''convmemory.owner'', true), ''''))::int)',
                owned.name
            );
        ELSE
            EXECUTE format(
                'CREATE POLICY members_read ON %s FOR SELECT USING (archive_id IN (SELECT convmemory_spaces()))', owned.name
            );
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', owned.name);
    END LOOP;
END
$body$

-- name: roles_are_there
-- Whether both roles of the program exist.
SELECT to_regrole('convmemory_app') IS NOT NULL AND to_regrole('convmemory_maintenance') IS NOT NULL

-- name: create_roles
-- Creates the roles that the application and maintenance log in with, if they are missing; needs a superuser.
DO $body$
BEGIN
    IF to_regrole('convmemory_app') IS NULL THEN
        CREATE ROLE convmemory_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
    IF to_regrole('convmemory_maintenance') IS NULL THEN
        CREATE ROLE convmemory_maintenance LOGIN NOSUPERUSER BYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;  -- another process has just made them
END
$body$

-- name: search_path
-- The current search path.
SELECT current_setting('search_path')

-- name: choose_path
-- Use another search path until the transaction ends.
SELECT set_config('search_path', %s, true)

-- name: ask_for_task
-- Put a task into the queue, or request the queued one again; no row if its archive is gone.
INSERT INTO core_ownertask
    (
        owner_id, person_id, task_id, key, func, args, "group", is_long, version, slices, attempts, asked_at, due_at,
        cluster
    )
SELECT
    %(owner)s::int, (SELECT id FROM auth_user WHERE id = %(person)s), %(task_id)s::uuid, %(key)s, %(func)s,
    %(args)s::jsonb, %(group)s, %(is_long)s, 1, 0, 0, %(as_of)s::timestamptz, %(now)s::timestamptz, ''
WHERE %(owner)s::int IS NULL OR EXISTS (SELECT FROM accounts_archive WHERE id = %(owner)s)
ON CONFLICT (key) DO UPDATE SET
    person_id = coalesce(excluded.person_id, core_ownertask.person_id),
    task_id = excluded.task_id,
    version = core_ownertask.version + 1,
    attempts = 0,
    asked_at = excluded.asked_at,
    due_at = least(core_ownertask.due_at, excluded.due_at)
RETURNING id

-- name: one_at_a_time
-- Wait for an advisory lock, which is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s)

-- name: next_task
-- The task to work on next: one of the installation's own, if these leave a worker to the tasks of owners. Else one of the
-- caller with the fewest in work, and among these of the one who waits longest; then of the caller's owner of whom the same
-- holds. The caller is the person who asked, or whose own archive it is; all upkeep of spaces, for which no person asked, is
-- one caller, 0, so that spaces do not multiply turns. Of the owner's tasks it is a long one if caller and owner may have one
-- more in work and a worker is kept free for others, else the one that was worked on least often, and of these the newest.
WITH working AS (
    SELECT
        t.owner_id, t.is_long, t.cluster = %(cluster)s AS is_here,
        CASE WHEN t.owner_id IS NOT NULL THEN coalesce(t.person_id, a.person_id, 0) END AS caller_id
    FROM core_ownertask AS t
    LEFT JOIN accounts_archive AS a ON a.id = t.owner_id
    WHERE t.leased_until > %(now)s
),

room AS (
    SELECT
        count(*) FILTER (WHERE is_long AND is_here) < %(most_long)s AS for_long,
        count(*) FILTER (WHERE owner_id IS NULL AND is_here) < %(most_long)s AS for_installation
    FROM working
),

waiting AS (
    SELECT DISTINCT coalesce(t.person_id, a.person_id, 0) AS caller_id, t.owner_id, a.person_id AS archive_person_id
    FROM core_ownertask AS t
    INNER JOIN accounts_archive AS a ON a.id = t.owner_id
),

services AS (
    SELECT coalesce(s.person_id, a.person_id, 0) AS caller_id, s.owner_id, max(s.served_at) AS served_at
    FROM core_ownerservice AS s
    INNER JOIN accounts_archive AS a ON a.id = s.owner_id
    GROUP BY 1, 2
),

services_of_callers AS (
    SELECT caller_id, max(served_at) AS served_at FROM services GROUP BY 1
),

turns AS (
    SELECT
        t.caller_id,
        t.owner_id,
        t.archive_person_id,
        (SELECT count(*) FROM working AS w WHERE w.caller_id = t.caller_id) AS tasks_of_caller,
        (SELECT count(*) FROM working AS w WHERE w.owner_id = t.owner_id) AS tasks_of_owner,
        c.served_at AS caller_served_at,
        s.served_at AS owner_served_at,
        (SELECT for_long FROM room)
        AND %(most_long_of_caller)s > (
            SELECT greatest(
                count(*) FILTER (WHERE w.caller_id = t.caller_id), count(*) FILTER (WHERE w.owner_id = t.owner_id)
            )
            FROM working AS w
            WHERE w.is_long
        ) AS may_be_long
    FROM waiting AS t
    LEFT JOIN services AS s ON s.caller_id = t.caller_id AND s.owner_id = t.owner_id
    LEFT JOIN services_of_callers AS c ON c.caller_id = t.caller_id
),

of_installation AS (
    SELECT id
    FROM core_ownertask
    WHERE
        owner_id IS NULL
        AND due_at <= %(now)s
        AND (leased_until IS NULL OR leased_until <= %(now)s)
        AND (SELECT for_installation FROM room)
    ORDER BY slices, asked_at, id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),

of_owners AS (
    SELECT t.id
    FROM turns
    CROSS JOIN LATERAL (
        SELECT id
        FROM core_ownertask
        WHERE
            owner_id = turns.owner_id
            AND coalesce(person_id, turns.archive_person_id, 0) = turns.caller_id
            AND due_at <= %(now)s
            AND (leased_until IS NULL OR leased_until <= %(now)s)
            AND (turns.may_be_long OR NOT is_long)
        ORDER BY is_long AND %(keeps_one_free)s DESC, slices, asked_at DESC, id DESC
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) AS t
    WHERE NOT EXISTS (SELECT FROM of_installation)
    ORDER BY
        turns.tasks_of_caller, turns.caller_served_at NULLS FIRST, turns.tasks_of_owner,
        turns.owner_served_at NULLS FIRST, t.id
    LIMIT 1
)

SELECT id FROM of_installation
UNION ALL
SELECT id FROM of_owners

-- name: tables_without_policy
-- The tables with `owner_id`, of spaces or of the audit log that lack the policy or have an older one, or on which it is off.
SELECT CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END AS name
FROM pg_class AS c
INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
WHERE
    n.nspname = ANY(%s) AND c.relkind IN ('r', 'p')
    AND (
        a.attname IS NOT NULL
        OR c.relname IN (
            'accounts_archive', 'accounts_membership', 'accounts_spaceinvitation', 'accounts_auditentry'
        )
    )
    AND NOT (
        c.relrowsecurity AND EXISTS (
            SELECT
            FROM pg_policy AS p
            WHERE
                p.polrelid = c.oid
                AND CASE
                    WHEN c.relname = 'accounts_auditentry' THEN p.polname = 'acts_of_person'
                    WHEN a.attname IS NULL THEN p.polname = 'members_read'
                    ELSE
                        p.polname = 'owner_alone'
                        AND pg_get_expr(p.polqual, p.polrelid) LIKE '%%convmemory_role%%'
                END
        )
    )
ORDER BY name

-- name: keys_across_owners
-- The foreign keys between tables of owners that admit a row which refers to another owner's, or have not been compared with
-- all rows yet, and the statements that make each compare the owners as well: one at a time, as the nodes of a cluster ask.
WITH keys AS (
    SELECT
        c.oid, c.conname, c.conkey[1] AS number, n.nspname, h.relname AS holder, t.relname AS target,
        b.attname AS referred, c.convalidated,
        EXISTS (
            SELECT
            FROM unnest(c.conkey, c.confkey) AS k (holding, referred)
            WHERE k.holding = ho.attnum AND k.referred = ta.attnum
        ) AS compares_owners,
        EXISTS (
            SELECT
            FROM pg_index AS i
            WHERE
                i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnatts = 2
                AND i.indkey::int2[] @> ARRAY[c.confkey[1], ta.attnum]
        ) AS has_index
    FROM pg_constraint AS c
    INNER JOIN pg_class AS h ON h.oid = c.conrelid
    INNER JOIN pg_namespace AS n ON n.oid = h.relnamespace
    INNER JOIN pg_class AS t ON t.oid = c.confrelid
    INNER JOIN pg_attribute AS ho ON ho.attrelid = h.oid AND ho.attname = 'owner_id' AND NOT ho.attisdropped
    INNER JOIN pg_attribute AS ta ON ta.attrelid = t.oid AND ta.attname = 'owner_id' AND NOT ta.attisdropped
    INNER JOIN pg_attribute AS b ON b.attrelid = t.oid AND b.attnum = c.confkey[1]
    WHERE c.contype = 'f' AND n.nspname = ANY(%s)
),

steps AS (
    SELECT
        k.*,
        CASE WHEN k.compares_owners THEN k.conname ELSE left(k.conname, 57) || '_owner' END AS name_after,
        -- By a run that ended before it dropped the key before.
        EXISTS (
            SELECT
            FROM keys AS d
            WHERE
                d.compares_owners AND NOT k.compares_owners
                AND (d.nspname, d.holder, d.target, d.number) = (k.nspname, k.holder, k.target, k.number)
        ) AS is_replaced,
        row_number() OVER (PARTITION BY nspname, target, compares_owners ORDER BY holder, conname) = 1 AS is_first
    FROM keys AS k
)

SELECT
    format('%%s.%%s.%%s', nspname, holder, conname) AS name,
    CASE
        WHEN is_first AND NOT compares_owners AND NOT has_index
            THEN ARRAY[
                format('DROP INDEX CONCURRENTLY IF EXISTS %%I.%%I', nspname, target || '_of_owner'),
                format(
                    'CREATE UNIQUE INDEX CONCURRENTLY %%I ON %%I.%%I (%%I, owner_id)',
                    target || '_of_owner', nspname, target, referred
                )
            ]
        ELSE '{}'
    END
    || CASE
        WHEN NOT compares_owners AND NOT is_replaced
            THEN ARRAY[
                format(
                    'ALTER TABLE %%I.%%I ADD CONSTRAINT %%I %%s NOT VALID', nspname, holder, name_after,
                    regexp_replace(
                        pg_get_constraintdef(oid), '^FOREIGN KEY \((.+?)\) REFERENCES (.+?)\((.+?)\)',
                        'FOREIGN KEY (\1, owner_id) REFERENCES \2(\3, owner_id)'
                    )
                )
            ]
        ELSE '{}'
    END
    || CASE
        WHEN NOT compares_owners
            THEN ARRAY[format('ALTER TABLE %%I.%%I DROP CONSTRAINT %%I', nspname, holder, conname)]
        ELSE '{}'
    END
    || CASE
        WHEN NOT is_replaced
            THEN ARRAY[format('ALTER TABLE %%I.%%I VALIDATE CONSTRAINT %%I', nspname, holder, name_after)]
        ELSE '{}'
    END AS statements
FROM steps
WHERE NOT (compares_owners AND convalidated)
ORDER BY nspname, target, holder, conname

-- name: is_migrated
-- Whether the tables exist that the functions which bypass the policies read.
SELECT
    num_nulls(
        to_regclass('accounts_apikey'), to_regclass('core_ownertask'), to_regclass('sign_in_knownaddress'),
        to_regclass('sign_in_linkedidentity'), to_regclass('accounts_membership'), to_regclass('accounts_sharelink'),
        to_regclass('accounts_spaceinvitation')
    ) = 0

-- name: bypasses_row_security
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

-- name: server_facts
-- The server's version, the database's pgvector, and the newest pgvector that the server has.
SELECT
    current_setting('server_version_num')::int / 10000,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')

-- name: ping
-- Whether the database answers.
SELECT 1

-- name: grant_rights
-- Lets both roles, if they exist, read and write rows and nothing more, including rows of tables created later.
DO $body$
DECLARE
    part text;
    here text := format('%I', current_schema());
BEGIN
    FOREACH part IN ARRAY ARRAY['convmemory_app', 'convmemory_maintenance'] LOOP
        CONTINUE WHEN to_regrole(part) IS NULL;
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', here, part);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %I', here, part);
        EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %s TO %I', here, part);
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM %I', part);
        EXECUTE format(
            'ALTER DEFAULT PRIVILEGES IN SCHEMA %s GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO %I', here, part
        );
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA %s GRANT USAGE, SELECT ON SEQUENCES TO %I', here, part);
    END LOOP;
    -- The application only adds to the audit log, with numbers that the database gives.
    IF to_regrole('convmemory_app') IS NOT NULL AND to_regclass('accounts_auditentry') IS NOT NULL THEN
        REVOKE ALL ON accounts_auditentry FROM convmemory_app;
        GRANT INSERT (created_at, action, surface, person_id, about_id, what) ON accounts_auditentry TO convmemory_app;
    END IF;
    -- And only reads legal holds, quotas, the operator's retention limits, and what directories provision.
    FOREACH part IN ARRAY ARRAY[
        'accounts_legalhold', 'accounts_quota', 'accounts_groupquota', 'retention_retentionlimit', 'accounts_scimtoken',
        'accounts_provisionedaccount', 'accounts_provisionedgroup'
    ] LOOP
        CONTINUE WHEN to_regrole('convmemory_app') IS NULL OR to_regclass(part) IS NULL;
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON %I FROM convmemory_app', part);
    END LOOP;
END
$body$

-- name: mark_leakproof
-- Lets conditions on stored words use their index under a policy, if the current role may declare that: a superuser.
-- PostgreSQL checks policies before functions that could tell of a row by an error; these tell of none.
DO $body$
DECLARE
    named regprocedure;
BEGIN
    IF current_setting('is_superuser') = 'off' THEN
        RETURN;
    END IF;
    FOR named IN
        SELECT p.oid
        FROM pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND NOT p.proleakproof AND p.proname IN (
            'int4out', 'int8out', 'textin', 'textcat', 'array_to_tsvector', 'tsvector_concat', 'tsquery_and', 'ts_match_vq'
        )
    LOOP
        EXECUTE format('ALTER FUNCTION %s LEAKPROOF', named);
    END LOOP;
END
$body$

-- name: rows_as_array
-- The rows of a statement as an array.
ARRAY(SELECT t FROM (
{statement}
) AS t)

-- name: columns_as_arrays
-- The columns of a statement, none of them an array, as arrays.
SELECT {arrays} FROM (
{statement}
) AS t ({columns})

-- name: together
-- The rows of several statements, each as an array.
SELECT {arrays}
