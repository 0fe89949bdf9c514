"""A database of commit 5e9aed6e, restored from a dump and migrated: every row is kept, and all that people could do.

`tests/fixtures/upgrades/README.md` says how the dump was made.
"""

import json
import lzma
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore as DjangoSessionStore
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection, connections
from django.db.migrations import RunSQL
from django.db.migrations.executor import MigrationExecutor
from pytest_django import DjangoDbBlocker, Settings

from convmemory.accounts.callers import Access, Caller, refuse_readers
from convmemory.accounts.holds import refuse_held
from convmemory.accounts.keys import caller_of_key
from convmemory.accounts.quota import limits_of
from convmemory.accounts.spaces import create_space, rename_space
from convmemory.conversations.marking import set_mark
from convmemory.conversations.models import Conversation
from convmemory.conversations.sharing import SignInNeeded, open_link
from convmemory.core.acting import acting_for, without_owner
from convmemory.core.errors import NotAllowed, OnLegalHold, ReadOnlyKey
from convmemory.core.marks import Mark
from convmemory.core.postgres.row_security import tables_without_policy
from convmemory.core.upgrading import known_migrations
from convmemory.ops.privacy.erasing import erase_again, read_ledger
from convmemory.sign_in.sessions.models import SessionStore
from search.searching import SearchQuery, search
from search.vectors.codes import encode, short_bytes
from search.vectors.packing import ENTRY, OF_ITEM
from tests.factories import make_user
from tests.support.copies import database_in_use
from tests.support.groups import copies_alone
from tests.support.passages import stored_passages

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

DUMP = Path(__file__).parents[2] / "fixtures" / "upgrades" / "5e9aed6e.sql.xz"
RESTORED, UPGRADED = (f"test_{name}_5e9aed6e_{os.getpid()}" for name in ("restored", "upgraded"))
KEYS = {
    "own": "cvm_XL6NKQcwY4zwzDne_bBFUoU7MqIf9HzUvnaFGuvI5CQ",
    "all spaces": "cvm_h3BTNJ0tlyr8mItf47FtpSMZCZPw_mDW_uAffq5V5cE",
    "Fish lab": "cvm_E0-rZk7DXKuzw3nGSuUn7RO38uGhP38hu2KGjTX5lzc",
    "read-only": "cvm_pCx6zBc0U-9rLla2hGAasrqotLp-KgcetV1ykf_VRcc",
    "of a reader": "cvm_tsdN0_R11ne01N4dvNs0bnSpPjLQ00rvHpCNqihEM5E",
    "of a contributor": "cvm_CLT5Ffo2Y15V9rk2M3Eyy7OzhMlbyqFeCbCIsnHng3w",
    "revoked": "cvm_kYI-pCj3s0Yi3PcvU6OQj0tr_LoUkoLZDSlmphVZlys",
    "of a program": "cvm_NhSIJuGhFmmYr5FEw2u890mKGlKpyJ8ULNM7x84PIGA",
}
LINKS = {"people": "v3IToPHtg3HhDhlW3Vr5JhTQi69Jpd1o", "anyone": "FaIra8WacTfbhaoVTS7LYRXhc_aDPQnt"}
FISH, TEA = 5, 6
"""The numbers of the spaces."""
ROLES = {
    ("ada", FISH): "manager", ("bob", FISH): "contributor", ("carol", FISH): "reader",
    ("ada", TEA): "reader", ("bob", TEA): "contributor", ("carol", TEA): "manager", ("eve", TEA): "manager",
}  # fmt: skip
SAID = {FISH: ("what did the axolotl cost?", "axolotl"), TEA: ("which samovar do we buy?", "samovar")}
RENAMED = {"accounts_spacemember": "accounts_membership"}
COLUMNS = {
    "accounts_spacemember": {"space_id": "archive_id"},
    "search_sourceindex": {"noted_version": "seen_version"},
}
NEW: dict[str, dict[str, Any]] = {
    "core_ownertask": {"person_id": None},
    "conversations_conversation": {"additions": {}, "repository": "", "worktree": "", "outcome_version": None},
    "conversations_figures": {"hours": None, "points": None},
    "conversations_message": {"outcome": None, "usage": None},
    "conversations_keptupload": {"added_by": None},
    "conversations_storeduse": {"added_bytes": 0, "added_turns": 0, "added_documents": 0},
    "documents_document": {"added_by": None, "coverage": [], "folder": "", "tags": []},
    "summaries_conversationsummary": {"asked_by": None},
    "accounts_provisionedaccount": {"email": ""},
    "accounts_auditentry": {"times": None},
    "accounts_scimtoken": {"reaches_staff": False},
    "accounts_sharelink": {"token_encrypted": ""},
}
"""Columns that the old tables lack, with what the old rows get."""
NOT_KEPT = {
    "accounts_sharedspace": "rows of accounts_archive, compared apart",
    "search_passage": "in blocks, compared apart",
    "search_binarycodeblock": "in the same blocks, compared apart",
    "search_tokenvectors": "in the same blocks, compared apart",
    "search_setasidepassage": "of objects in the trash, which are embedded again when they are put back",
    "core_ownerposition": "gone: a task waits in one table alone",
    "core_ownerservice": "whose turn it is: begins anew, by persons and archives",
    "django_q_ormq": "tasks of the installation, which schedules and sweeps enqueue again",
    "auth_permission": "renamed with their models, and made again by Django",
    "django_content_type": "renamed with their models, and made again by Django",
    "django_migrations": "notes more",
}
"""Tables that are not compared row by row, each with the reason."""
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
    "sequences": "SELECT sequencename, data_type::text FROM pg_sequences WHERE schemaname = 'public'",
    "constraints": """
        SELECT conrelid::regclass::text, contype,
            regexp_replace(pg_get_constraintdef(oid), '::(text|character varying)(\\[\\])?|[()]', '', 'g')
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
    """,
    "indexes": """
        SELECT tablename,
            regexp_replace(indexdef, 'INDEX \\S+ ON|::(text|character varying)(\\[\\])?|[()]', '', 'g')
        FROM pg_indexes WHERE schemaname = 'public'
    """,
    "policies": """
        SELECT polrelid::regclass::text, polname, polcmd, pg_get_expr(polqual, polrelid),
            pg_get_expr(polwithcheck, polrelid)
        FROM pg_policy
    """,
    "functions": """
        SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prosrc FROM pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'convmemory%'
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
    "permissions of staff": """
        SELECT t.app_label, t.model, p.codename, p.name
        FROM auth_permission AS p INNER JOIN django_content_type AS t ON t.id = p.content_type_id
    """,
}

EMPTY = {
    "core_ownergroup", "django_q_schedule", "django_q_task", "django_session",
}  # fmt: skip
"""Tables of the dump without rows."""

Rows = dict[str, list[dict[str, Any]]]
Shape = dict[str, Counter[tuple[Any, ...]]]


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(scope="module", autouse=True)
def dump(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Restore the dump once: to copy its database takes a tenth of the time."""
    with django_db_blocker.unblock(), new_database(RESTORED):
        with database_in_use(RESTORED):
            rows(lzma.decompress(DUMP.read_bytes()).decode())
        yield


@contextmanager
def new_database(name: str, template: str = "template1") -> Iterator[None]:
    with connections["default"]._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield
    finally:
        with connections["default"]._nodb_cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def restored() -> Iterator[None]:
    """In the block everything goes to a database as 5e9aed6e left it."""
    with new_database(UPGRADED, RESTORED), copies_alone(), database_in_use(UPGRADED):
        yield


def stored_rows() -> Rows:
    return {
        table: [json.loads(row) for (row,) in rows(f'SELECT to_jsonb(t)::text FROM "{table}" AS t')]
        for (table,) in rows(TABLES)
    }


MADE_ANEW = {
    "conversations_message": {"contents"},
    "memory_messageembedding": {"content_hash", "conversation_id", "position", "role"},
    "search_source": {"title_words"},
    "search_itemembedding": {"code"},
    "search_sourceindex": {"newest_vector"},
}
"""Columns by table that are derived from others, and now in another way."""


def lost_rows(before: Rows, after: Rows) -> dict[str, tuple[int, int]]:
    """Return the numbers of rows that are gone, and of new ones, of each table; a row of other values is both."""
    lost = {}
    for table, old in before.items():
        if table in NOT_KEPT:
            continue
        names = COLUMNS.get(table, {})
        made_anew = MADE_ANEW.get(table, set())
        kept = Counter(
            _canonical({name: value for name, value in row.items() if name not in made_anew})
            for row in after.get(RENAMED.get(table, table), [])
        )
        had = Counter(
            _canonical(
                {names.get(name, name): value for name, value in row.items() if name not in made_anew}
                | NEW.get(table, {})
            )
            for row in old
        )
        if kept != had:
            lost[table] = ((had - kept).total(), (kept - had).total())
    return lost


def _canonical(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def shape() -> Shape:
    """Return what a database is made of, without the names of indexes and constraints."""
    return {part: Counter(rows(statement)) for part, statement in SHAPES.items()}


def caller(name: str) -> Caller:
    return Caller.of(User.objects.get(username=name))


def found(caller: Caller, archive_id: int, text: str) -> list[str]:
    access = caller.reads(archive_id)
    assert access
    with acting_for(caller.own.archive_id), caller.in_(access) as there:
        return [str(hit.passage) for hit in search(caller=there.alone(), query=SearchQuery(text=text)).hits]


def roles_of(caller: Caller) -> dict[int, str]:
    with acting_for(caller.own.archive_id):
        return {access.archive_id: str(access.role) for access in caller.spaces}


def by_key(name: str, *, writes: bool = False) -> Caller | None:
    with without_owner():
        return caller_of_key(KEYS[name], writes=writes)


def spaces_of_key(name: str) -> list[int]:
    caller = by_key(name)
    assert caller
    return sorted(access.archive_id for access in caller.spaces)


def opened(token: str, *, visitor_id: int | None) -> str:
    with without_owner():
        return "".join(open_link(token, visitor_id=visitor_id))


def mark_first_turn(name: str, access: Access) -> None:
    refuse_readers(access)
    with acting_for(caller(name).own.archive_id), caller(name).in_(access) as there:
        conversation = Conversation.objects.filter(archive_id=there.archive_id, title__contains="?").order_by("pk")[0]
        set_mark(caller=there, conversation_id=conversation.pk, turn_number=0, mark=Mark("wrong", name))


def assert_upgraded(before: Rows, made_from_nothing: Shape) -> None:
    after = stored_rows()
    spaces = {row["space_id"]: row for row in before["accounts_sharedspace"]}
    assert set(spaces) == {FISH, TEA}
    joined = {row["id"]: row["date_joined"] for row in before["auth_user"]}
    people = [row for row in before["auth_user"] if row["id"] not in spaces]
    assert lost_rows(before | {"auth_user": people}, after) == {}
    own = [
        {"id": row["id"], "kind": "own", "name": "", "created_at": row["date_joined"], "person_id": row["id"]}
        for row in people
    ]
    shared = [
        {"id": key, "kind": "space", "name": row["name"], "created_at": joined[key], "person_id": None}
        for key, row in spaces.items()
    ]
    assert sorted(after["accounts_archive"], key=lambda row: int(row["id"])) == [*own[:4], *shared, *own[4:]]
    assert_packed(before)
    built = shape()
    for part, expected in made_from_nothing.items():
        assert (part, built[part] - expected, expected - built[part]) == (part, Counter(), Counter())
    executor = MigrationExecutor(connection)
    assert executor.migration_plan(executor.loader.graph.leaf_nodes()) == []
    applied = rows("SELECT app, name FROM django_migrations")
    assert len(applied) == len(set(applied)), "noted twice"
    assert set(applied) <= known_migrations(), "of backups"
    assert rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid") == []
    assert rows("SELECT conrelid::regclass::text FROM pg_constraint WHERE NOT convalidated") == []
    assert tables_without_policy() == []


def assert_packed(before: Rows) -> None:
    """Check that each passage is in a block, with its place, the codes of its vector and of its words."""
    vectors = np.array([json.loads(row["embedding"]) for row in before["search_passage"]], np.float32)
    tokens = {row["passage_id"]: row["vectors"] for row in before["search_tokenvectors"]}
    expected = Counter(
        (
            row["source_id"], row["space_id"], row["element_id"], row["item_number"], row["start"], row["end"],
            row["part_index"], row["kind"], row["asks"], row["token_count"], UUID(row["content_hash"]), code,
            bytes.fromhex(tokens.get(row["id"], "").removeprefix("\\x")),
        )
        for row, code in zip(before["search_passage"], encode(vectors), strict=True)
    )  # fmt: skip
    stored = stored_passages(is_kept=None)
    assert Counter((one.block.source_id, one.block.space_id, *one[1:]) for one in stored) == expected
    assert {one.block.source_id for one in stored if one.block.is_kept} == {
        row["id"] for row in before["search_source"] if row["version"] == 0
    } & {one.block.source_id for one in stored}
    entries = np.frombuffer(b"".join(bytes(one) for (one,) in rows("SELECT entries FROM search_passageblock")), ENTRY)
    of_items = entries["element"][entries["kind"] == OF_ITEM]
    assert sorted(of_items.tolist()) == sorted(row["id"] for row in before["search_itemembedding"])
    packed = b"".join(bytes(codes) for (codes,) in rows("SELECT codes FROM search_passageblock"))
    assert len(packed) == len(entries) * short_bytes(384)


@pytest.fixture
def made_from_nothing() -> Shape:
    """The shape of the run's own database, which the migrations made."""
    return shape()


@pytest.mark.essential
def test_database_of_5e9aed6e_keeps_every_row_and_gets_the_tables_of_a_new_one(made_from_nothing: Shape) -> None:
    with restored():
        before = stored_rows()
        assert {table for table, stored in before.items() if not stored} <= EMPTY
        call_command("migrate", verbosity=0)
        assert_upgraded(before, made_from_nothing)
        said = StringIO()
        call_command("migrate", stdout=said)
        assert "No migrations to apply." in said.getvalue()
        assert_upgraded(before, made_from_nothing)


def test_people_can_do_in_an_upgraded_database_what_they_could(settings: Settings) -> None:
    settings.SHARING = "anybody"
    with restored():
        call_command("migrate", verbosity=0)
        assert "Forty tanks of zebrafish." in found(caller("ada"), 1, "zebrafish")
        assert found(caller("eve"), 3, "Roggenbrot")
        for name in ("ada", "bob", "carol", "eve"):
            assert roles_of(caller(name)) == {space: role for (user, space), role in ROLES.items() if user == name}
        for (name, space), role in ROLES.items():
            question, word = SAID[space]
            assert word in found(caller(name), space, question)[0]
            access = next(access for access in caller(name).spaces if access.archive_id == space)
            if role == "reader":
                with pytest.raises(NotAllowed):
                    mark_first_turn(name, access)
            else:
                mark_first_turn(name, access)
        assert caller("eve").reads(FISH) is None
        rename_space(person=caller("ada").user, space_id=FISH, name="Axolotl lab")
        with pytest.raises(NotAllowed):
            rename_space(person=caller("bob").user, space_id=FISH, name="Bob's lab")

        assert [spaces_of_key(name) for name in ("own", "all spaces", "Fish lab", "read-only")] == [
            [], [FISH, TEA], [FISH], []
        ]  # fmt: skip
        assert [spaces_of_key(name) for name in ("of a reader", "of a contributor", "of a program")] == [
            [FISH], [FISH], []
        ]  # fmt: skip
        assert by_key("revoked") is None
        with pytest.raises(ReadOnlyKey):
            by_key("read-only", writes=True)
        program = by_key("Fish lab", writes=True)
        assert program
        assert program.may_write_spaces
        assert "axolotl" in found(program, FISH, "axolotl")[0]

        assert "zebrafish" in opened(LINKS["anyone"], visitor_id=None)
        assert "zebrafish" in opened(LINKS["people"], visitor_id=2)
        with pytest.raises(SignInNeeded):
            opened(LINKS["people"], visitor_id=None)

        bob = caller("bob").user
        rights = {right for right in bob.get_all_permissions() if right.endswith(("_archive", "_membership"))}
        assert rights == {f"accounts.{right}" for right in (
            "view_archive", "change_archive", "view_membership", "delete_membership"
        )}  # fmt: skip
        assert rows(f"SELECT about_id FROM accounts_auditentry WHERE about_id = {FISH}")
        assert (limits_of(archive_id=4).turns, limits_of(archive_id=FISH).documents) == (1_000, 20)
        with acting_for(FISH), pytest.raises(OnLegalHold):
            refuse_held(archive_id=FISH, conversation_ids=None)
        with acting_for(4):
            refuse_held(archive_id=4, conversation_ids=None)

        bread, dora = create_space(person=bob, name="Bread"), make_user("dora")
        assert len({bread.pk, dora.pk, *(pk for (pk,) in rows("SELECT id FROM accounts_archive WHERE id < 8"))}) == 9


def test_killed_upgrade_changes_nothing_and_is_continued(
    made_from_nothing: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restored():
        before, was = stored_rows(), shape()
        archives = MigrationExecutor(connection).loader.get_migration("accounts", "0002_archives")
        (operation,) = type(archives).operations
        assert isinstance(operation, RunSQL)
        statement = operation.sql
        monkeypatch.setattr(operation, "sql", f"{statement}; SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(OperationalError):
            call_command("migrate", verbosity=0)
        connection.close()
        assert (stored_rows() | {"django_migrations": []}, shape()) == (before | {"django_migrations": []}, was)
        monkeypatch.setattr(operation, "sql", statement)
        call_command("migrate", verbosity=0)
        assert_upgraded(before, made_from_nothing)


def test_space_that_is_being_erased_is_refused_and_kept() -> None:
    with restored():
        rows(f"INSERT INTO ops_erasure (user_id, requested_at) VALUES ({FISH}, now())")
        before = stored_rows()
        with pytest.raises(DatabaseError, match="A space is being erased"):
            call_command("migrate", verbosity=0)
        assert stored_rows() | {"django_migrations": []} == before | {"django_migrations": []}


def test_space_that_was_erased_is_erased_again_after_a_restored_backup_is_upgraded() -> None:
    with restored():
        joined = rows(f"SELECT date_joined FROM auth_user WHERE id = {FISH}")[0][0]
        rows(f"INSERT INTO ops_erasure (user_id, requested_at) VALUES ({FISH}, now())")
        rows(f"INSERT INTO ops_eraseduser (account, joined_at, erased_at) VALUES ({FISH}, '{joined}', now())")
        call_command("migrate", verbosity=0)
        assert erase_again(read_ledger()) == [f"space {FISH}"]
        assert rows(f"SELECT count(*) FROM accounts_archive WHERE id = {FISH}") == [(0,)]


@contextmanager
def act_of_space_becomes_nobodys() -> Iterator[None]:
    rows(
        f"INSERT INTO accounts_auditentry (created_at, action, surface, person_id, about_id, what) "
        f"VALUES (now(), 'deleted', 'admin', {FISH}, {FISH}, 'conversation 7')"
    )
    yield
    kept = "SELECT person_id, about_id FROM accounts_auditentry WHERE what = 'conversation 7'"
    assert rows(kept) == [(None, FISH)]


@contextmanager
def addresses_are_kept_with_who_gave_them() -> Iterator[None]:
    """Of accounts that a provider made, and of those that a directory changed."""
    people = (
        ("made by provider", "!", "now()", "now()", None),
        ("with a password", "pbkdf2", "now()", "now() + '1 minute'", False),
        ("made by directory", "!", "now()", "now()", True),
        ("found by directory", "!", "now() - interval '1 day'", "now()", False),
    )
    for number, (name, password, joined, linked, was_made) in enumerate(people, start=20):
        rows(f"""
            INSERT INTO auth_user (id, password, is_superuser, username, first_name, last_name, email, is_staff,
                is_active, date_joined)
            VALUES ({number}, '{password}', false, '{name}', '', '', '{number}@example.org', false, true, {joined});
            INSERT INTO sign_in_linkedidentity (issuer, subject, created_at, owner_id)
            VALUES ('https://id.example', '{number}', {linked}, {number})
        """)
        if was_made is not None:
            rows(f"""
                INSERT INTO accounts_provisionedaccount (external_id, email_type, was_made, updated_at, owner_id)
                VALUES ('', '', {was_made}, now(), {number})
            """)
    yield
    provided, of_directory = (
        dict(rows(f"SELECT owner_id, email FROM accounts_{name} WHERE owner_id >= 20"))
        for name in ("provideraddress", "provisionedaccount")
    )
    assert provided == {20: "20@example.org"}
    assert of_directory == {21: "21@example.org", 22: "", 23: "23@example.org"}
    kept = dict(rows("SELECT id, email FROM auth_user WHERE id >= 20"))
    assert kept == {20: "20@example.org", 21: "", 22: "22@example.org", 23: "23@example.org"}


@contextmanager
def sessions_get_their_person_and_expired_ones_go() -> Iterator[None]:
    mine, of_visitor = (DjangoSessionStore().encode(data) for data in ({"_auth_user_id": "1"}, {}))
    rows(f"""
        INSERT INTO django_session (session_key, session_data, expire_date) VALUES
        ('key-of-ada', '{mine}', now() + '1 day'), ('visitor', '{of_visitor}', now() + '1 day'),
        ('old', '{mine}', now())
    """)
    yield
    assert sorted(rows("SELECT session_key, person_id, seen_at FROM django_session")) == [
        ("key-of-ada", 1, None), ("visitor", None, None)
    ]  # fmt: skip
    assert SessionStore("key-of-ada").load() == {"_auth_user_id": "1"}


@contextmanager
def rows_in_other_schemas_name_archives_too() -> Iterator[None]:
    """Each group of archives has a schema with tables of its own, whose foreign keys name accounts."""
    rows("CREATE SCHEMA of_a_group")
    rows("CREATE TABLE of_a_group.chat_agent (owner_id int REFERENCES auth_user DEFERRABLE INITIALLY DEFERRED)")
    rows("INSERT INTO of_a_group.chat_agent SELECT owner_id FROM chat_agent")
    yield
    keys = "SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = 'of_a_group.chat_agent'::regclass"
    assert rows(keys) == [("accounts_archive",)]


def test_rows_that_the_dump_lacks_are_upgraded() -> None:
    with restored(), ExitStack() as kinds:
        for upgrade_of in (
            act_of_space_becomes_nobodys,
            addresses_are_kept_with_who_gave_them,
            sessions_get_their_person_and_expired_ones_go,
            rows_in_other_schemas_name_archives_too,
        ):
            kinds.enter_context(upgrade_of())
        call_command("migrate", verbosity=0)


@pytest.mark.parametrize("missing", ["accounts.0016_keys_write_to_spaces", "search.%", "accounts.0014_scim"])
def test_older_database_is_refused_and_kept(missing: str) -> None:
    app, _, name = missing.partition(".")
    with restored():
        rows(f"DELETE FROM django_migrations WHERE app = '{app}' AND name LIKE '{name}' AND name <> '0001_initial'")
        before, was = stored_rows(), shape()
        with pytest.raises(CommandError, match=rf"{app}\.\w+ is not applied\. Start commit 5e9aed6e.*Nothing has been"):
            call_command("migrate", verbosity=0)
        with pytest.raises(CommandError, match="Start commit 5e9aed6e"):
            call_command("migrate", "accounts", "0001_initial", verbosity=0)
        assert (stored_rows(), shape()) == (before, was)
