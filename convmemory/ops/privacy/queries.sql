-- name: export_snapshot
-- The name by which another connection can see the same rows.
SELECT pg_export_snapshot()

-- name: vector_version
-- The database's pgvector.
SELECT extversion FROM pg_extension WHERE extname = 'vector'

-- name: applied_migrations
-- The migrations applied to the database, in order.
SELECT app, name FROM django_migrations ORDER BY id

-- name: backed_up_tables
-- The tables whose rows a backup counts.
SELECT c.relname
FROM pg_class AS c
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace
ORDER BY c.relname

-- name: count_owned
-- How many rows of a table belong to one person.
SELECT count(*) FROM {table} WHERE {condition}

-- name: drop_owned
-- Delete one batch of a table's rows of one person; the condition stands twice because places are no names: a table
-- over several others has the same ones in each.
DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %(batch)s)) AND ({condition})

-- name: drop_person
-- Delete the row of one person.
DELETE FROM {table} WHERE {condition}

-- name: shut_out_erased
-- Deactivate an account that was erased after the backup.
UPDATE auth_user SET is_active = false WHERE id = %s AND date_joined = %s

-- name: begin_erasures
-- Note that the erasure of such an account has begun, long enough ago for `finish_erasures` to resume it.
INSERT INTO ops_erasure (user_id, requested_at)
SELECT id, now() - interval '1 day' FROM auth_user WHERE id = %s AND date_joined = %s
ON CONFLICT DO NOTHING

-- name: has_archives
-- Whether the database has the table of archives.
SELECT to_regclass('accounts_archive') IS NOT NULL

-- name: shut_members_out
-- Take a space that was erased after the backup from its members.
DELETE FROM accounts_membership
WHERE archive_id IN (SELECT id FROM accounts_archive WHERE id = %s AND created_at = %s AND kind = 'space')

-- name: has_ledger
-- Whether the database has the table of erased users.
SELECT to_regclass('ops_eraseduser') IS NOT NULL

-- name: add_to_ledger
-- Keep an account in the ledger of erased users.
INSERT INTO ops_eraseduser (account, joined_at, erased_at) VALUES (%s, %s, now()) ON CONFLICT DO NOTHING

-- name: clear_references
-- Set a nullable reference to rows of one person to null, in rows that may be others'.
UPDATE {table} SET "{column}" = NULL WHERE {rows} AND "{column}" IN (SELECT "{pk}" FROM {target} WHERE {condition})

-- name: drop_log_entries
-- Delete the admin's log entries about one table's rows of one person.
DELETE FROM django_admin_log
WHERE content_type_id = %(kind)s AND object_id IN (SELECT "{pk}"::text FROM {table} WHERE {condition})

-- name: owned_files
-- The names of the files that belong to rows of one person.
SELECT "{column}" FROM {table} WHERE {condition}

-- name: order_of_sources
-- The order of messages' raw sources, and of their marks, by conversation, for an export whose reader walks both side by side.
(SELECT m.conversation_id FROM conversations_message AS m WHERE m.id = message_id),
(SELECT m.position FROM conversations_message AS m WHERE m.id = message_id)

-- name: export_rows
-- The rows of one table that belong to one person, as JSON.
SELECT row_to_json(r)::text FROM (SELECT {columns} FROM {table} AS t WHERE {condition} {in_order}) AS r

-- name: stored_files
-- The places of all documents' files, including versions still being read.
SELECT file FROM documents_document WHERE file <> ''
UNION
SELECT next_file FROM documents_document WHERE next_file <> ''
ORDER BY 1

-- name: stored_uploads
-- The places of all kept uploads.
SELECT file FROM conversations_keptupload WHERE file <> ''
ORDER BY 1

-- name: waiting_uploads
-- The places of uploads whose import has not ended.
SELECT 'waiting/' || file FROM conversations_import WHERE file <> '' AND state IN ('queued', 'running')
ORDER BY 1

-- name: has_table
-- Whether there is a table of this name.
SELECT to_regclass(%s) IS NOT NULL

-- name: other_connections
-- How many other connections use a database.
SELECT count(*)
FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND pid <> pg_backend_pid()

-- name: create_restoring_role
-- A role that can log in and nothing else.
CREATE ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION

-- name: foreign_objects
-- Objects of a restored database that no backup of this program contains; all could run code for the reader of rows.
WITH extended AS MATERIALIZED (
    SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
),
found (kind, name, class, object) AS (
    SELECT 'function', oid::regprocedure::text, 'pg_proc'::regclass, oid FROM pg_proc
    WHERE
        pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        -- not those that the program created first: the role of a restore cannot give its own away
        AND proowner <> (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = current_user)
    UNION ALL
    SELECT 'trigger', tgname, 'pg_trigger'::regclass, oid FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'event trigger', evtname, 'pg_event_trigger'::regclass, oid FROM pg_event_trigger
    UNION ALL
    SELECT 'relation', relname, 'pg_class'::regclass, oid FROM pg_class
    WHERE relkind NOT IN ('r', 'p', 'i', 'I', 'S', 't') AND oid >= 16384
    UNION ALL
    SELECT 'rule', rulename, 'pg_rewrite'::regclass, oid FROM pg_rewrite WHERE oid >= 16384
    UNION ALL
    SELECT 'policy', polname, 'pg_policy'::regclass, oid FROM pg_policy
    UNION ALL
    SELECT 'operator', oprname, 'pg_operator'::regclass, oid FROM pg_operator WHERE oid >= 16384
    UNION ALL
    SELECT 'operator class', opcname, 'pg_opclass'::regclass, oid FROM pg_opclass WHERE oid >= 16384
    UNION ALL
    SELECT 'cast', castsource::regtype::text, 'pg_cast'::regclass, oid FROM pg_cast WHERE oid >= 16384
    UNION ALL
    SELECT 'conversion', conname, 'pg_conversion'::regclass, oid FROM pg_conversion WHERE oid >= 16384
    UNION ALL
    SELECT 'type', t.typname, 'pg_type'::regclass, t.oid FROM pg_type AS t
    WHERE t.oid >= 16384 AND t.typtype <> 'c' AND NOT EXISTS (
        SELECT FROM pg_type AS e WHERE e.typarray = t.oid AND e.typtype IN ('c', 'b')
    )
    UNION ALL
    SELECT 'statistics', stxname, 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext
    UNION ALL
    SELECT 'language', lanname, 'pg_language'::regclass, oid FROM pg_language WHERE oid >= 16384
    UNION ALL
    SELECT 'publication', pubname, 'pg_publication'::regclass, oid FROM pg_publication
    UNION ALL
    SELECT 'foreign server', srvname, 'pg_foreign_server'::regclass, oid FROM pg_foreign_server
    UNION ALL
    SELECT 'extension', extname, 'pg_extension'::regclass, oid FROM pg_extension
    WHERE extname NOT IN ('plpgsql', 'vector')
    UNION ALL
    SELECT 'schema', nspname, 'pg_namespace'::regclass, oid FROM pg_namespace
    WHERE nspname NOT IN ('public', 'information_schema') AND nspname !~ '^pg_'
    UNION ALL
    SELECT 'setting', array_to_string(s.setconfig, ' '), 'pg_database'::regclass, s.setdatabase
    FROM pg_db_role_setting AS s INNER JOIN pg_database AS d ON d.oid = s.setdatabase
    WHERE d.datname = current_database()
)
SELECT kind, name FROM found
WHERE NOT EXISTS (SELECT FROM extended WHERE classid = class AND objid = object)
ORDER BY kind, name

-- name: expressions
-- Every expression that PostgreSQL computes when rows are written: defaults, generated columns, checks, indexes.
SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
UNION ALL
SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conbin IS NOT NULL AND conrelid >= 16384
UNION ALL
SELECT pg_get_expr(indexprs, indrelid) FROM pg_index WHERE indexprs IS NOT NULL AND indrelid >= 16384
UNION ALL
SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indpred IS NOT NULL AND indrelid >= 16384
UNION ALL
SELECT pg_get_expr(partexprs, partrelid) FROM pg_partitioned_table WHERE partexprs IS NOT NULL

-- name: rows_of_others
-- Which of some rows of a table exist and belong to another owner.
SELECT "{pk}" FROM {table} WHERE "{pk}" = ANY(%(pks)s) AND ({condition}) IS NOT TRUE

-- name: count_documents
-- Set the bytes of documents that an older version stored: of the file and of the sections' texts.
UPDATE documents_document AS d SET stored_bytes = d.size + (
    SELECT coalesce(sum(octet_length(s.text)), 0) FROM documents_section AS s
    WHERE s.document_id = d.id AND s.owner_id = d.owner_id
)
WHERE d.stored_bytes IS NULL

-- name: owners_with_storage
-- The owners who have stored something, or of whom it is recorded.
SELECT owner_id FROM conversations_storeduse
UNION SELECT owner_id FROM conversations_conversation
UNION SELECT owner_id FROM conversations_keptupload
UNION SELECT owner_id FROM documents_document
ORDER BY owner_id

-- name: stored_by_owner
-- What one owner has stored, by the sums of conversations, documents and kept uploads: bytes, turns, documents.
SELECT c.bytes + d.bytes + k.bytes, c.turns, d.documents
FROM
    (
        SELECT coalesce(sum(stored_bytes), 0) AS bytes, coalesce(sum(turn_count), 0) AS turns
        FROM conversations_conversation WHERE owner_id = %(owner)s
    ) AS c,
    (
        SELECT coalesce(sum(stored_bytes), 0) AS bytes, count(*) AS documents
        FROM documents_document WHERE owner_id = %(owner)s
    ) AS d,
    (SELECT coalesce(sum(stored_size), 0) AS bytes FROM conversations_keptupload WHERE owner_id = %(owner)s) AS k

-- name: added_by_person
-- What persons, or one, have added to spaces, by the sums of conversations, documents and kept uploads: person, bytes, turns,
-- documents.
SELECT person, sum(bytes)::bigint, sum(turns)::bigint, sum(documents)::bigint
FROM
    (
        SELECT a.key::int AS person, (a.value ->> 0)::bigint AS bytes, (a.value ->> 1)::bigint AS turns, 0 AS documents
        FROM conversations_conversation AS c
        CROSS JOIN LATERAL jsonb_each(c.additions) AS a
        WHERE c.additions <> '{}'
        UNION ALL
        SELECT added_by, coalesce(stored_bytes, 0), 0, 1 FROM documents_document WHERE added_by IS NOT NULL
        UNION ALL
        SELECT added_by, stored_size, 0, 0 FROM conversations_keptupload WHERE added_by IS NOT NULL
    ) AS added
WHERE %(person)s::int IS NULL OR person = %(person)s
GROUP BY person

-- name: forget_adder_of_conversations
-- Take a person's number from the conversations of spaces.
UPDATE conversations_conversation SET additions = additions - %(person)s::text WHERE additions ? %(person)s::text

-- name: forget_adder_of_documents
-- Take a person's number from the documents of spaces.
UPDATE documents_document SET added_by = NULL WHERE added_by = %(person)s

-- name: forget_adder_of_uploads
-- Take a person's number from the kept uploads of spaces.
UPDATE conversations_keptupload SET added_by = NULL WHERE added_by = %(person)s

-- name: forget_sender_of_imports
-- Take a person's number from the imports of spaces.
UPDATE conversations_import SET started_by = NULL WHERE started_by = %(person)s

-- name: forget_asker_of_summaries
-- Take a person's number from the summaries of spaces.
UPDATE summaries_conversationsummary SET asked_by = NULL WHERE asked_by = %(person)s
