"""Erasing a person leaves nothing of them in any table, and everything of everybody else."""

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Callable
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection
from django_q.models import Task

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive
from convmemory.accounts.spaces import create_space
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.models import Conversation, Message
from convmemory.core.acting import acting_for
from convmemory.core.files.work_folders import work_folder
from convmemory.core.models import OwnerTask
from convmemory.embeddings.models import CachedVector
from convmemory.ops.models import ErasedUser, Erasure
from convmemory.ops.privacy import erasing
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.ownership import SHARED, all_models, owned_tables
from convmemory.ops.privacy.task_arguments import NAMED_ELSEWHERE, named_rows, table_of_parameter
from convmemory.sign_in.sessions.models import Session
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support.importing import uploads
from tests.support.passages import stored_passages
from tests.support.persons import fill_person, rows_of, tables_with
from tests.support.terminal import Terminal

pytestmark = pytest.mark.django_db

ADA, BOB = "zebrafinch", "quaggamussel"
LAST_ROWS = "DELETE FROM conversations_conversation WHERE"
AFTER_THE_ROWS = '"core_ownertask"."owner_id" IS NULL'  # the step between a person's rows and the person
LOOSE = {"conversations_message": ("opening_id",), "conversations_conversation": ("object_id",)}
"""Columns that name rows of a table without a foreign key, and under another name."""
REFERENCES = """
SELECT c.conrelid::regclass::text, a.attname
FROM pg_constraint AS c
JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = ANY(c.conkey)
WHERE c.contype = 'f' AND c.confrelid = %s::regclass
"""


def test_every_model_belongs_to_person_or_is_said_to_be_shared() -> None:
    owned = {table.label for table in owned_tables()}
    unclear = {model._meta.label for model in all_models()} - owned - SHARED.keys()
    assert not unclear, (
        "Say whose rows these are: give the model a cascading foreign key that leads to its owner, "
        "or name it in convmemory/ops/privacy/ownership.py SHARED with the reason"
    )
    assert not owned & SHARED.keys()
    assert SHARED.keys() <= {model._meta.label for model in apps.get_models(include_auto_created=True)}


def test_every_table_of_database_has_model() -> None:
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    assert tables - {model._meta.db_table for model in all_models()} == {"django_migrations"}


def test_every_task_names_rows_by_parameters_that_are_understood() -> None:
    for function in _tasks():
        for name in inspect.signature(function).parameters:
            if name.removesuffix("s").endswith("_id") and name not in NAMED_ELSEWHERE:
                assert table_of_parameter(name), f"{function.__module__}.{function.__name__}({name})"


def _tasks() -> list[Any]:
    modules = []
    for package in ("convmemory", "memory", "search", "summaries"):
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        modules += [importlib.import_module(m.name) for m in found if m.name.endswith(".tasks")]
    functions = [f for m in modules for _, f in inspect.getmembers(m, inspect.isfunction) if f.__module__ == m.__name__]
    assert functions
    return functions


def test_erasure_removes_all_rows_of_person_and_none_of_others() -> None:
    ada, bob = make_user(ADA), make_user(BOB)
    fill_person(bob, BOB)
    erased = source_id(fill_person(ada, ADA)[0])
    assert all(rows_of(table, user) for table in owned_tables() for user in (ada, bob))
    assert {"conversations_message", "django_admin_log", "auth_user"} <= tables_with([ADA]).keys()
    before = {table.name: rows_of(table, bob) for table in owned_tables()}
    shared_entry = _cached_of(bob)
    ids = {table: _keys(table, ada) for table in owned_tables()}

    receipt = erase_user(user=ada)

    assert receipt.finished
    assert tables_with([ADA]) == {}
    assert {name: count for name, count in _rows_that_name(ids).items() if count} == {}
    assert not [s for s in Session.objects.all() if s.get_decoded().get("_auth_user_id") == str(ada.pk)]
    named = [row for task in Task.objects.all() for row in named_rows(task.func, task.args, task.kwargs)]
    assert {row.pk for row in named} == {sources_of(bob)[0]}
    assert list(OwnerTask.objects.filter(archive=None).values_list("args", flat=True)) == [[bob.pk]]
    assert erased not in {row.pk for row in named}
    before["django_admin_log"] -= 1  # Bob's entry about a conversation of Ada's
    assert {table.name: rows_of(table, bob) for table in owned_tables()} == before
    assert _cached_of(bob) == shared_entry
    assert CachedVector.objects.count() == len(shared_entry)
    assert search(caller=Caller.of(bob), query=SearchQuery(text=f"where is {BOB}?")).hits
    assert receipt.deleted["auth_user"] == 1
    assert receipt.deleted["conversations_conversation"] == 4


def sources_of(user: User) -> list[int]:
    return [source_id(conversation) for conversation in Conversation.objects.filter(archive_id=user.pk).order_by("pk")]


def _cached_of(user: User) -> set[bytes]:
    return {bytes(h) for h in CachedVector.objects.filter(archive_id=user.pk).values_list("content_hash", flat=True)}


def _keys(table: Any, user: User) -> list[Any]:
    pk = table.model._meta.pk
    if not pk.column:  # nothing can name a row by a composite key
        return []
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT "{pk.column}" FROM {table.name} WHERE {table.condition}', {"owner": user.pk})
        return [key for (key,) in cursor.fetchall()]


def _rows_that_name(ids: dict[Any, list[Any]]) -> dict[str, int]:
    """Rows that reference one of these rows, by constraint or by a column's name."""
    found = {}
    with connection.cursor() as cursor:
        for table, keys in ids.items():
            cursor.execute(REFERENCES, [table.name])
            columns = set(cursor.fetchall())
            cursor.execute(
                "SELECT table_name, column_name FROM information_schema.columns "
                "WHERE table_schema = 'public' AND column_name = ANY(%s) AND data_type = 'bigint'",
                [[f"{table.model._meta.model_name}_id", *LOOSE.get(table.name, ())]],
            )
            for name, column in columns | set(cursor.fetchall()):
                cursor.execute(f'SELECT count(*) FROM {name} WHERE "{column}" = ANY(%s)', [keys])
                (found[f"{name}.{column}"],) = cursor.fetchone()
            if table.model is Message:
                passages = stored_passages(is_kept=None, source__kind="conversation")
                found["search_passageblock.entries"] = sum(passage.element_id in keys for passage in passages)
    assert {"search_item.opening_id", "search_passageblock.entries"} <= found.keys()
    return found


def test_erasure_of_space_removes_its_rows_and_members_and_none_of_their_own() -> None:
    ada = make_user(ADA)
    with acting_for(ada.pk):
        space = create_space(person=ada, name="Boat house")
    conversation = make_conversation(space, exchange(("which knot holds the boat?", "A bowline.")))
    own = make_conversation(ada, exchange(("which rope is it?", "The blue one.")))
    index_conversation(conversation_id=conversation.pk)
    call_command("erase_user", f"space {space.pk}", "--yes")
    assert not Archive.objects.filter(pk=space.pk).exists()
    assert not any(rows_of(table, space) for table in owned_tables())
    assert Conversation.objects.get() == own
    assert ErasedUser.objects.get().account == space.pk
    with pytest.raises(CommandError, match="Nothing is left to erase"):
        call_command("erase_user", f"space {space.pk}", "--yes")


def test_space_of_restored_database_is_erased_again() -> None:
    ada = make_user(ADA)
    with acting_for(ada.pk):
        space = create_space(person=ada, name="Boat house")
    make_conversation(space, exchange(("which knot holds the boat?", "A bowline.")))
    assert erasing.erase_again([(space.pk, space.created_at)]) == [f"space {space.pk}"]
    assert not Conversation.objects.exists()
    assert Archive.objects.filter(pk=ada.pk).exists()


def test_run_that_is_cut_off_shuts_person_out_and_is_finished_by_next() -> None:
    ada = make_user(ADA)
    fill_person(ada, ADA)
    first = erase_user(user=ada, deadline=0)
    assert not first.finished
    ada.refresh_from_db()
    assert not ada.is_active
    assert Erasure.objects.filter(user=ada).exists()
    assert tables_with([ADA])

    second = erasing.erase(archive=erasing.archive_to_erase(ADA))
    assert second.finished
    assert tables_with([ADA]) == {}
    assert not set(first.deleted) & set(second.deleted) - {"queued tasks", "finished tasks"}
    with pytest.raises(CommandError, match="Nothing is left to erase"):
        call_command("erase_user", ADA, "--yes")


def test_erasure_in_small_batches_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "BATCH", 2)
    ada = make_user(ADA)
    fill_person(ada, ADA)
    assert erase_user(user=ada).finished
    assert tables_with([ADA]) == {}
    assert not CachedVector.objects.exists()


def _after_the_rows(write: Callable[[], object]) -> Any:
    """Wraps statements: `write` runs in each pass between the person's rows and the person."""
    in_rows = False

    def wrapper(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        nonlocal in_rows
        if LAST_ROWS in str(sql):
            in_rows = True
        elif in_rows and AFTER_THE_ROWS in str(sql):
            in_rows = False
            write()
        return execute(sql, params, many, context)

    return wrapper


def test_rows_written_during_erasure_are_erased_too() -> None:
    ada = make_user(ADA)
    fill_person(ada, ADA)
    late: list[int] = []

    def write_once() -> None:
        if not late:
            late.append(make_conversation(ada, exchange((f"late {ADA}", "yes"))).pk)

    with connection.execute_wrapper(_after_the_rows(write_once)):
        receipt = erase_user(user=ada)
    assert late
    assert receipt.finished
    assert receipt.deleted["conversations_conversation"] == 5
    assert tables_with([ADA]) == {}


def test_erasure_with_constant_writes_raises_still_in_use() -> None:
    ada = make_user(ADA)

    def write() -> None:
        make_conversation(ada, exchange((f"late {ADA}", "yes")))

    with connection.execute_wrapper(_after_the_rows(write)), pytest.raises(erasing.StillInUse, match="erase again"):
        erase_user(user=ada)
    ada.refresh_from_db()
    assert not ada.is_active
    assert erase_user(user=ada).finished


def test_erasure_deletes_work_folders_of_owner_only() -> None:
    ada, bob = make_user(ADA), make_user(BOB)
    with ExitStack() as stack:
        left = {user: stack.enter_context(work_folder("import", archive_id=user.pk)) for user in (ada, bob)}
        erase_user(user=ada)
        assert (left[ada].exists(), left[bob].exists()) == (False, True)


def test_erasure_deletes_queued_uploads_of_owner_only() -> None:
    ada, bob = make_user(ADA), make_user(BOB)
    left = {
        user: queue_import(caller=Caller.of(user), file=SimpleUploadedFile("a.jsonl", b"{}")).file.name
        for user in (ada, bob)
    }
    assert set(left.values()) <= set(uploads())
    erase_user(user=ada)
    assert (left[ada] in uploads(), left[bob] in uploads()) == (False, True)
    erase_user(user=bob)


def test_command_asks_for_name_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ada = make_user(ADA)
    told = Terminal()
    for answer in ("yes\n", "", "\n"):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        with pytest.raises(CommandError, match="Nothing was deleted"):
            call_command("erase_user", ADA, stderr=told)
    assert "auth_user" in told.getvalue()
    assert f"Type {ADA} to agree" in told.getvalue()
    with pytest.raises(CommandError, match="There is no terminal to ask on: --yes"):
        call_command("erase_user", ADA, stderr=StringIO())
    assert User.objects.filter(pk=ada.pk, is_active=True).exists()
    monkeypatch.setattr("sys.stdin", Terminal(f"{ADA}\n"))
    out = StringIO()
    call_command("erase_user", ADA, "--json", stdout=out, stderr=told)
    assert json.loads(out.getvalue())["username"] == ADA


def test_ledger_is_applied_once_rows_are_shown_and_agreed_to(tmp_path: Path) -> None:
    ada = make_user(ADA)
    make_conversation(ada, exchange(("q?", "a.")))
    ledger, told = tmp_path / "ledger", StringIO()
    ledger.write_text(json.dumps({"account": ada.pk, "joined_at": ada.date_joined.isoformat()}))
    with pytest.raises(CommandError, match=r"No user was erased\..*--yes"):
        call_command("erasures", "--apply", str(ledger), stderr=told)
    assert re.search(rf"{ADA}: [1-9]\d* rows, will be deleted for good", told.getvalue())
    assert User.objects.filter(pk=ada.pk, is_active=True).exists()
    assert not ErasedUser.objects.exists()
    out = StringIO()
    call_command("erasures", "--apply", str(ledger), "--yes", stdout=out, stderr=told)
    assert f"Erased again: {ADA}." in out.getvalue()
