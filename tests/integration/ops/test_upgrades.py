"""Databases of two earlier commits, restored from dumps and migrated: every row is kept and search finds a turn.

`tests/fixtures/upgrades/README.md` says how the dumps were made.
"""

import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from convmemory.accounts.keys import user_of_key
from convmemory.core.acting import acting_for, without_owner
from convmemory.core.postgres.row_security import tables_without_policy
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.schemas import is_up_to_date
from convmemory.ops.groups.sizes import group_reports
from convmemory.ops.privacy.backup import known_migrations
from search.indexing.active import index_source
from search.models import Source
from search.postings import cached as postings
from search.searching import SearchQuery, search
from search.vectors import blocks, item_codes, small_owners
from tests.support.copies import database_in_use
from tests.support.groups import copies_alone, database_copy, make_coordinator

pytestmark = pytest.mark.django_db(transaction=True)

DUMPS = Path(__file__).parents[2] / "fixtures" / "upgrades"
KEYS = {
    "7f45b3b": "cvm_n2KhzXKRhPbgmQoR0yV2mcqYYzuRgu4p5SKFo60UBmU",
    "7276cda7": "cvm_zthPPsO8s3HETuVP8gNvZagXxcW5o07F9da8kxYEO4o",
}
RENAMED = {
    "search_turndocument": "search_item",
    "search_turnembedding": "search_itemembedding",
    "memory_passage": "search_passage",
    "memory_passagetokens": "search_tokenvectors",
    "memory_signblock": "search_binarycodeblock",
    "accounts_contentaccess": "accounts_auditentry",
}
COLUMNS = {
    "search_turndocument": {"turn_number": "number", "message_id": "opening_id", "question": "heading"},
    "search_turnembedding": {"turn_number": "item_number", "signs": "code"},
    "memory_passage": {"turn_number": "item_number", "message_id": "element_id"},
    "memory_signblock": {"places": "entries", "signs": "codes"},
    "accounts_contentaccess": {"reader_id": "person_id", "owner_id": "about_id"},
}
CHANGED = {"django_admin_log": {"object_repr"}, "search_sourceindex": {"indexed_version", "dirty_from"}}
"""Columns whose values an upgrade changes: the log forgets names of keys, and conversations are compared again."""
NOT_KEPT = {
    "django_content_type", "auth_permission", "django_migrations",  # of the framework
    "embeddings_cachedvectoruse", "search_conversationindex", "search_spaceprogress",  # in other tables since
    "django_q_ormq", "ops_turnmap",  # made again by sweeps
    "embeddings_cachedvector",  # of local models: the index has their vectors
    "core_ownerposition",  # of read replicas
}  # fmt: skip
REPLACING = """
name = '0001_initial' AND app IN ('accounts', 'chat', 'conversations', 'core', 'embeddings', 'memory', 'ops', 'search')
OR name = '0002_stored_bytes' AND app = 'conversations'
"""
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
# A dump that is restored has other casts and parentheses in its conditions.
SHAPES = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage, a.attidentity,
            a.attgenerated, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_class AS c
        INNER JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
    """,
    "constraints": """
        SELECT conrelid::regclass::text, contype,
            regexp_replace(pg_get_constraintdef(oid), '::(text|character varying)(\\[\\])?|[()]', '', 'g')
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
    """,
    "indexes": """
        SELECT tablename,
            regexp_replace(indexdef, 'INDEX \\S+ ON|::(text|character varying)(\\[\\])?|[()]', '', 'g')
        FROM pg_indexes WHERE schemaname = 'public' AND indexdef !~ 'hnsw'
    """,
    "policies": "SELECT polrelid::regclass::text, polname, pg_get_expr(polqual, polrelid) FROM pg_policy",
    "functions": """
        SELECT p.proname, pg_get_function_arguments(p.oid), p.prosrc FROM pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'convmemory%'
            -- It is called by web processes of the earlier version, which serve until they are replaced.
            AND p.proname <> 'convmemory_waiting_tasks'
    """,
    "text search": """
        SELECT c.cfgname, m.maptokentype, d.dictname FROM pg_ts_config AS c
        INNER JOIN pg_ts_config_map AS m ON m.mapcfg = c.oid INNER JOIN pg_ts_dict AS d ON d.oid = m.mapdict
        WHERE c.cfgnamespace = 'public'::regnamespace
    """,
    "rights": """
        SELECT relname, acl.grantee::regrole::text, acl.privilege_type
        FROM pg_class, aclexplode(relacl) AS acl
        WHERE relnamespace = 'public'::regnamespace AND acl.grantee::regrole::text LIKE 'convmemory%'
    """,
}

Rows = dict[str, list[dict[str, Any]]]
Shape = dict[str, Counter[tuple[Any, ...]]]


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def restored(commit: str) -> Iterator[None]:
    """In the block everything goes to a database as that commit left it."""
    name = f"test_upgraded_{commit}_{os.getpid()}"
    with connections["default"]._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    try:
        with copies_alone(), database_in_use(name):
            rows(lzma.decompress((DUMPS / f"{commit}.sql.xz").read_bytes()).decode())
            connection.close()  # the dump has changed the session's search path
            for cache in (postings.CACHE, blocks.CACHE, item_codes.CACHE, small_owners.CACHE):
                cache._entries.clear()  # of an owner with the same number in another test's database
            yield
    finally:
        with connections["default"]._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def stored_rows() -> Rows:
    return {
        table: [json.loads(row) for (row,) in rows(f'SELECT to_jsonb(t)::text FROM "{table}" AS t')]
        for (table,) in rows(TABLES)
    }


def lost_rows(before: Rows, after: Rows) -> dict[str, int]:
    """Return the number of rows of each table that are gone or have other values in the columns that they had."""
    found = {}
    for table, old in before.items():
        if table not in NOT_KEPT:
            renamed = {"conversation_id": "source_id"} if table in RENAMED else {}
            columns = {
                name: (renamed | COLUMNS.get(table, {})).get(name, name)
                for row in old[:1] for name in row if name not in CHANGED.get(table, ())
            }  # fmt: skip
            kept = sorted(_canonical(row, columns.values()) for row in after[RENAMED.get(table, table)])
            missing = sorted(_canonical(row, columns) for row in old)
            if kept != missing:
                found[table] = len(set(missing) - set(kept)) or len(kept) - len(missing)
    return found


def _canonical(row: Mapping[str, Any], names: Any) -> str:
    return json.dumps([row[name] for name in names])


def shape() -> Shape:
    """Return what a database is made of, without the names of indexes and constraints."""
    return {part: Counter(rows(statement)) for part, statement in SHAPES.items()}


def found_turns(text: str) -> list[str]:
    ada = User.objects.get(username="ada")
    with acting_for(ada.pk):
        return [str(hit.passage) for hit in search(caller=ada, query=SearchQuery(text=text)).hits]


def index_everything() -> None:
    for owner_id, pk in list(Source.objects.values_list("owner_id", "pk")):
        with acting_for(owner_id):
            index_source(owner_id=owner_id, source_id=pk)


def assert_upgraded(commit: str, before: Rows, made_from_nothing: Shape) -> None:
    after = stored_rows()
    assert lost_rows(before, after) == {}
    assert len(before["conversations_message"]) >= 17
    found = shape()
    for part, expected in made_from_nothing.items():
        assert (part, found[part] - expected, expected - found[part]) == (part, Counter(), Counter())
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    applied = rows("SELECT app, name FROM django_migrations")
    assert len(applied) == len(set(applied)), "noted twice"
    assert {(row["app"], row["name"]) for row in before["django_migrations"]} <= set(known_migrations()), "of backups"
    assert rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []
    assert tables_without_policy() == []
    assert rows("SELECT count(*) FROM conversations_conversation WHERE stored_bytes IS NOT NULL") == [(0,)]
    assert [name for (name,) in rows("SELECT indexname FROM pg_indexes WHERE indexdef ~ 'hnsw'")] == ["passage_codes_1"]
    with without_owner():
        caller = user_of_key(KEYS[commit], writes=False)
    assert caller is not None
    assert caller.username == "ada"
    assert any("zebrafish" in passage for passage in found_turns("zebrafish")), "before workers have read it again"
    index_everything()
    assert any("zebrafish" in passage for passage in found_turns("where are the fish?"))


@pytest.fixture
def made_from_nothing() -> Shape:
    """The shape of the run's own database, which `0001_initial` of each app made."""
    return shape()


def test_database_of_7f45b3b_keeps_every_row(made_from_nothing: Shape) -> None:
    with restored("7f45b3b"):
        before = stored_rows()
        call_command("migrate", verbosity=0)
        columns = "kind, object_id, title, origin, archived, item_count, layout, version"
        sources = f"SELECT {columns} FROM search_source WHERE title IN ('Fish', 'Eggs') ORDER BY title"
        [eggs, fish] = rows(sources)
        conversation = "SELECT id, turn_count, turns_version FROM conversations_conversation WHERE title = '{}'"
        for source, title, archived in ((eggs, "Eggs", True), (fish, "Fish", False)):
            ((pk, turns, version),) = rows(conversation.format(title))
            assert source == ("conversation", pk, title, "api", archived, turns, 0, version)
        states = (
            "SELECT indexed_version, dirty_from, last_item, refused ->> '0' FROM search_sourceindex WHERE space_id = {}"
        )
        assert rows(states.format(2)) == [(0, 0, 0, "too strange")]
        assert {state[:2] for state in rows(states.format(1))} == {(0, 0)}, "to be read again"
        ((new,),) = rows("SELECT nextval(pg_get_serial_sequence('search_source', 'id'))")
        assert new > max(pk for (pk,) in rows("SELECT id FROM search_source"))
        local = "SELECT id FROM embeddings_embeddingspace WHERE provider = 'local'"
        assert rows(f"SELECT count(*) FROM embeddings_cachedvector WHERE space_id IN ({local})") == [(0,)]
        owners = "SELECT count(*) FROM {} AS m JOIN {} AS c ON c.id = m.{} WHERE m.owner_id = c.owner_id"
        for table, home, column in (
            ("conversations_message", "conversations_conversation", "conversation_id"),
            ("conversations_messagesource", "conversations_message", "message_id"),
            ("search_tokenvectors", "search_passage", "passage_id"),
        ):
            assert rows(owners.format(table, home, column)) == [(len(before.get(table, before["memory_passage"])),)]
        assert rows("SELECT count(*) FROM conversations_event WHERE words @@ 'session'::tsquery")[0][0] > 0
        assert re.fullmatch(r"API key \d+", rows("SELECT object_repr FROM django_admin_log")[0][0])
        assert_upgraded("7f45b3b", before, made_from_nothing)


def test_upgrade_that_ended_half_way_is_continued(made_from_nothing: Shape) -> None:
    with restored("7f45b3b"):
        before = stored_rows()
        for half in (["conversations"], ["search", "0015_item_moments"], []):
            call_command("migrate", *half, verbosity=0)
        assert_upgraded("7f45b3b", before, made_from_nothing)


def test_database_of_commit_between_is_refused_and_kept() -> None:
    with restored("7f45b3b"):
        rows("INSERT INTO django_migrations (app, name, applied) VALUES ('search', '0010_system_prompts', now())")
        before = stored_rows()
        with pytest.raises(CommandError, match=r"search\.0010_system_prompts is applied.*commit 7276cda7"):
            call_command("migrate", verbosity=0)
        after = stored_rows()
        assert after["search_turndocument"] == before["search_turndocument"]
        assert after["memory_passage"] == before["memory_passage"]


def test_database_of_7276cda7_keeps_every_row(made_from_nothing: Shape) -> None:
    with restored("7276cda7"):
        before = stored_rows()
        call_command("migrate", verbosity=0)
        assert {"documents_section", "conversations_keptupload", "conversations_hiddenkey", "core_ownertask"} <= {
            table for table, found in before.items() if found
        }
        assert_upgraded("7276cda7", before, made_from_nothing)


def test_groups_noted_under_replaced_names_are_up_to_date_without_changes() -> None:
    """A database of the last commit before `0001_initial`: its tables are today's, its notes name what is replaced."""
    with copies_alone(), database_copy() as name, database_in_use(name):
        make_coordinator()
        distribute(groups=2)
        for schema in ("public", "group_1", "group_2"):
            rows(f"DELETE FROM {schema}.django_migrations WHERE {REPLACING}")
        assert not is_up_to_date()
        said = StringIO()
        call_command("migrate", stdout=said)
        assert said.getvalue().count("No migrations to apply.") == 3
        assert is_up_to_date()
        assert not [problem for report in group_reports() for problem in report.problems]
