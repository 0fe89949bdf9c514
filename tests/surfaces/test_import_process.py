"""Imports in real child processes and by a real worker: limits hold, and nothing is lost or doubled."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Mail, MailChoice
from convmemory.accounts.spaces import create_space
from convmemory.conversations import tasks
from convmemory.conversations.importing import queue
from convmemory.conversations.importing.api import MAX_WAIT_S
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.importing.models import Import
from convmemory.conversations.messages.storage_quota import use_of_storage
from convmemory.conversations.models import Conversation, Message
from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.core.models import OwnerTask
from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import Ending
from tests.factories import make_user
from tests.support.importing import let_children_in, uploads
from tests.support.patience import ANSWER_S, wait_until
from tests.support.queue import drop_all
from tests.support.site import running_site
from tests.support.web_process import database_environment
from tests.support.worker import running_worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> User:
    shutil.rmtree(config.import_folder, ignore_errors=True)  # what the test before has left
    let_children_in(monkeypatch)
    return make_user()


def many_messages(count: int) -> bytes:
    return b"".join(b'{"role": "user", "content": "question %d"}\n' % n for n in range(count))


def queued(owner: User, content: bytes) -> Import:
    return queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("chat.jsonl", content))


def test_upload_is_imported_by_process_that_ends(owner: User) -> None:
    row = queued(owner, LINES)
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    row.refresh_from_db()
    assert row.report
    assert row.report["total"]["added"] == 2
    assert Message.objects.count() == 2
    assert uploads() == []
    assert not children()


def test_import_in_space_takes_turns_of_who_sent_it(owner: User) -> None:
    space = create_space(person=owner, name="Lab")
    with acting_for(space.pk, person_id=owner.pk):
        file = SimpleUploadedFile("chat.jsonl", LINES)
        row = queue_import(caller=Caller.for_archive(space.pk), file=file)
    assert tasks.run(row.pk, archive_id=space.pk) == {"state": "done"}
    turns = OwnerTask.objects.filter(archive_id=space.pk).values_list("func", "person")
    counting = "convmemory.conversations.tasks.count_for_statistics"
    assert set(turns) == {("search.tasks.index", owner.pk), (counting, owner.pk)}
    assert use_of_storage(archive_id=owner.pk).turns == 1


def test_import_in_confined_process_is_followed_by_mail(owner: User, settings: Any) -> None:
    settings.EMAIL_HOST, settings.PUBLIC_URL = "127.0.0.1", "https://memory.example"
    User.objects.update(email="ada@example.org")
    MailChoice.objects.create(person_id=owner.pk, notices=MailChoice.Notices.ALL, language="de")
    row = queued(owner, LINES)
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    assert f"https://memory.example/import/{row.pk}" in Mail.objects.get().text


def test_program_is_loaded_once_for_imports_that_follow_each_other(owner: User) -> None:
    for number in range(3):
        assert tasks.run(queued(owner, b'{"role": "user", "content": "%d"}\n' % number).pk, archive_id=owner.pk) == {
            "state": "done"
        }
        assert len(servers()) == 1
        assert not children()
    assert Conversation.objects.count() == 3


def test_server_that_has_ended_or_was_started_otherwise_is_replaced(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.run(queued(owner, LINES).pk, archive_id=owner.pk)
    [first] = servers()
    first.kill()
    wait_until(lambda: first.status() == psutil.STATUS_ZOMBIE)
    assert tasks.run(queued(owner, LINES).pk, archive_id=owner.pk) == {"state": "done"}
    [second] = servers()
    monkeypatch.setenv("IMPORT_MEMORY_MB", "333")
    assert tasks.run(queued(owner, LINES).pk, archive_id=owner.pk) == {"state": "done"}
    [third] = servers()
    assert len({first.pid, second.pid, third.pid}) == 3
    monkeypatch.setattr(child_process, "IDLE_SERVER_S", 0)
    tasks.run(queued(owner, LINES).pk, archive_id=owner.pk)
    [fourth] = servers()
    assert fourth.pid != third.pid, "one that may be about to end is not asked"


def test_import_whose_server_cannot_start_runs_again(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    row = queued(owner, LINES)
    with monkeypatch.context() as patch:
        patch.setenv("IMPORT_MEMORY_MB", "not a number")
        assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "queued"}
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}


def test_worker_holds_no_connection_meanwhile(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    watch = child_process._watch

    def look(*arguments: Any) -> Any:
        held.append(connection.connection is not None)
        return watch(*arguments)

    monkeypatch.setattr(child_process, "_watch", look)
    tasks.run(queued(owner, LINES).pk, archive_id=owner.pk)
    assert held == [False]


def test_import_that_takes_too_long_is_ended(owner: User, settings: Any) -> None:
    settings.IMPORT_TIMEOUT_S = 0
    row = queued(owner, many_messages(200_000))  # a small one may be done before the first check
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert row.failure == "time"
    assert "longer than 0 s (IMPORT_TIMEOUT_S)" in row.error
    assert not children()
    assert uploads() == []


def test_kernel_ends_process_whose_worker_forgot_it(
    owner: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convmemory.core.processes.child_process.GRACE_S", 1 - settings.IMPORT_TIMEOUT_S)
    monkeypatch.setattr("convmemory.core.processes.child_process.HEARTBEAT_S", 30)
    row = queued(owner, many_messages(200_000))
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert row.failure == "time"


def test_import_that_needs_too_much_memory_is_ended(owner: User, settings: Any) -> None:
    settings.IMPORT_MEMORY_MB = 256  # the least that can be set: an ordinary import has enough
    assert tasks.run(queued(owner, many_messages(2_000)).pk, archive_id=owner.pk) == {"state": "done"}
    Conversation.objects.all().delete()
    document = b'[{"role": "user", "content": "%s"}]' % (b"x" * 60 * 1024**2)
    row = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("chat.json", document))
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert (row.failure, "256 MB (IMPORT_MEMORY_MB)" in row.error) == ("memory", True)
    assert not Conversation.objects.exists()
    assert uploads() == []


def test_upload_is_deleted_when_its_process_ends_between_result_and_file(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_before_the_file(row: Import, folder: str) -> Ending:
        Import.objects.filter(pk=row.pk).update(state=Import.State.DONE, run=None, lease_until=None, file="")
        return Ending.LOST

    row = queued(owner, LINES)
    monkeypatch.setattr(queue, "run_child", end_before_the_file)
    assert tasks.run(row.pk, archive_id=owner.pk) == {"state": "done"}
    assert uploads() == []


def test_import_that_is_killed_runs_again(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    row = queued(owner, LINES)
    monkeypatch.setattr("convmemory.core.processes.child_process._watch", killing(monkeypatch))
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "queued"}
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    assert Message.objects.count() == 2


def killing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """In place of watching the child: kill it as the kernel does where memory is short, once."""
    watch = child_process._watch

    def kill_first(process: Any, *arguments: Any) -> Any:
        os.kill(process.pid, signal.SIGKILL)
        monkeypatch.setattr(child_process, "_watch", watch)
        return watch(process, *arguments)

    return kill_first


def test_import_that_loses_its_database_connection_is_queued_again(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = queued(owner, LINES)
    with psycopg.connect(database_environment()["DATABASE_URL"]) as other:
        other.execute("LOCK TABLE conversations_message IN SHARE MODE")  # the child waits here
        monkeypatch.setattr("convmemory.core.processes.child_process._watch", disconnecting(monkeypatch, other))
        assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "queued"}
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    assert Message.objects.count() == 2


def disconnecting(monkeypatch: pytest.MonkeyPatch, other: psycopg.Connection) -> Callable[..., Any]:
    """Replace the watching of a child once: end the child's connection first, as a server does that is killed."""
    watch = child_process._watch
    waiting = "FROM pg_locks WHERE relation = 'conversations_message'::regclass AND NOT granted"

    def disconnect_first(process: Any, *arguments: Any) -> Any:
        wait_until(lambda: bool(other.execute(f"SELECT pg_terminate_backend(pid) {waiting}".encode()).fetchall()))
        other.rollback()
        monkeypatch.setattr(child_process, "_watch", watch)
        return watch(process, *arguments)

    return disconnect_first


@pytest.fixture
def site(owner: User) -> Iterator[httpx2.Client]:
    with running_site() as address:
        headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
        timeout_s = MAX_WAIT_S + ANSWER_S  # the server may wait for as long
        with httpx2.Client(base_url=address, headers=headers, timeout=timeout_s, trust_env=False) as http:
            yield http


@pytest.mark.essential
def test_upload_over_http_waits_for_worker(site: httpx2.Client, owner: User, tmp_path: Path) -> None:
    waiting = site.post("/api/v1/imports", files={"file": ("chat.jsonl", LINES)}, data={"wait": "0"})
    assert (waiting.status_code, waiting.json()["state"]) == (202, "queued")
    with running_worker({}, tmp_path / "worker.log"):
        wait = {"wait": str(MAX_WAIT_S)}
        answer = site.post("/api/v1/imports", files={"file": ("more.jsonl", LINES)}, data=wait)
        assert (answer.status_code, answer.json()["total"]["added"]) == (200, 2), answer.text
        wait_until(lambda: site.get(waiting.headers["Location"]).json()["state"] == "done")
    assert Message.objects.count() == 2  # two files of one conversation, whatever their names


def test_process_of_killed_worker_ends_and_import_is_found(owner: User, tmp_path: Path) -> None:
    row = queued(owner, many_messages(20_000))
    tasks.enqueue_import(archive_id=owner.pk, import_id=row.pk)
    with inserts_held(), running_worker({}, tmp_path / "worker.log"):
        wait_until(lambda: Import.objects.get().messages_read > 0)
        [child] = children()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    drop_all()
    Import.objects.update(lease_until=Import.objects.get().started_at)
    assert tasks.sweep()["lost"] == 1
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    assert (Message.objects.count(), Conversation.objects.count()) == (20_000, 1)


@contextmanager
def inserts_held() -> Iterator[None]:
    """Lock inserts of messages until the end of the block: an import stays under way, however long the test takes."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {Message._meta.db_table} IN SHARE MODE")
        yield


def servers() -> list[psutil.Process]:
    """The processes of this one that fork a child for each import."""
    return [process for process in psutil.Process().children() if is_of_imports(process)]


def children() -> list[psutil.Process]:
    """Processes of imports that are under way in this process and those that it started."""
    found = psutil.Process().children(recursive=True)
    return [process for process in found if is_of_imports(process) and is_of_imports(process.parent())]


def is_of_imports(process: psutil.Process | None) -> bool:
    with suppress(psutil.NoSuchProcess):  # others that this one has started end when they like
        return process is not None and "convmemory.conversations.importing.child" in process.cmdline()
    return False
