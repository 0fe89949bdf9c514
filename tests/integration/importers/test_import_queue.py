"""Imports as workers take them: one of an owner at a time, a worker left free, lost ones found, uploads cleaned up."""

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone
from django_q.models import OrmQ

from convmemory.conversations import import_process, import_queue, import_work, tasks
from convmemory.conversations.import_models import Import
from convmemory.conversations.imports import create_import, queue_import, store_upload
from convmemory.conversations.models import Conversation, Message
from convmemory.core.child_process import Ending
from convmemory.core.errors import InvalidInput, TooLarge, TooManyAtOnce
from convmemory.ops.runtime.schedules import SCHEDULES
from tests.factories import make_user
from tests.support.full_disk import files_end_at
from tests.support.importing import run_here, uploads

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'
PAST = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(import_process, "run_child", run_here)
    settings.IMPORT_FOLDER = tmp_path / "imports"
    settings.WORKERS = 4


def queued(owner: User, content: bytes = LINES, name: str = "chat.jsonl") -> Import:
    return queue_import(owner=owner, file=SimpleUploadedFile(name, content))


def enqueued() -> list[int]:
    """The imports in the queue, which is emptied."""
    found = [
        item.task["args"][0]
        for item in OrmQ.objects.order_by("pk")
        if item.task["func"] == "convmemory.conversations.tasks.run"
    ]
    OrmQ.objects.all().delete()
    return found


def states() -> list[str]:
    return list(Import.objects.order_by("pk").values_list("state", flat=True))


def claim(row: Import) -> Import:
    found = import_queue.claim(row.pk)
    assert found
    return found


def test_an_upload_waits_where_nobody_else_can_read_it_and_goes_with_the_import() -> None:
    row = queued(make_user())
    (name,) = uploads()
    folder = Path(django_settings.IMPORT_FOLDER)
    assert (row.state, row.file.name, row.size) == ("queued", name, len(LINES))
    assert (folder.stat().st_mode & 0o777, (folder / name).stat().st_mode & 0o777) == (0o700, 0o600)
    assert tasks.run(row.pk) == {"state": "done"}
    row.refresh_from_db()
    assert row.report
    assert (row.report["total"]["added"], row.messages_read, row.files_read) == (2, 2, 1)
    assert (row.file.name, row.run, row.lease_until) == ("", None, None)
    assert uploads() == []
    assert tasks.run(row.pk) == {"state": "not now"}


def test_one_import_of_an_owner_runs_and_the_others_follow() -> None:
    ada, bob = make_user(), make_user()
    first, second, of_bob = queued(ada), queued(ada), queued(bob)
    claimed = claim(first)
    assert import_queue.claim(first.pk) is None
    assert import_queue.claim(second.pk) is None
    assert import_queue.next_imports() == [of_bob.pk]
    assert tasks.run(of_bob.pk) == {"state": "done"}
    with pytest.raises(IntegrityError), transaction.atomic():
        Import.objects.filter(pk=second.pk).update(state="running")
    import_queue.fail(claimed, Import.Failure.TIME, "too slow")
    assert enqueued() == []
    tasks.sweep()
    assert enqueued() == [second.pk]
    third = queued(ada)
    assert tasks.run(second.pk) == {"state": "done"}
    assert enqueued().count(third.pk) == 1


def test_a_small_import_waits_for_no_large_one(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "SMALL_BYTES", len(LINES))
    settings.WORKERS = 2
    owners = [make_user() for _ in range(3)]
    large, second_large = (queued(owner, LINES * 2) for owner in owners[:2])
    small = queued(owners[2])
    claim(large)
    assert import_queue.claim(second_large.pk) is None
    assert import_queue.next_imports() == [small.pk]
    claim(small)
    assert import_queue.claim(queued(make_user()).pk) is None, "there are two workers"
    assert import_queue.next_imports() == []


def test_a_worker_stays_free_and_owners_take_turns(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "SMALL_BYTES", 0)
    settings.WORKERS = 2
    ada, bob, eve = make_user(), make_user(), make_user()
    rows = [queued(owner) for owner in (ada, ada, ada, bob, eve)]
    assert import_queue.next_imports() == [rows[0].pk]
    claimed = claim(rows[0])
    assert import_queue.claim(rows[3].pk) is None
    assert import_queue.next_imports() == []
    import_queue.fail(claimed, Import.Failure.TIME, "")
    order = []
    while found := import_queue.next_imports():
        order += found
        tasks.run(found[0])
    assert order == [rows[3].pk, rows[4].pk, rows[1].pk, rows[2].pk]


def test_an_import_whose_worker_died_runs_again_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    row = queued(make_user())
    lost = claim(row)
    run_here(lost, str(django_settings.IMPORT_FOLDER) + "-1")
    Import.objects.update(state="running", run=lost.run, file=row.file.name)  # it died before it could say so
    upload = Path(django_settings.IMPORT_FOLDER) / str(row.file.name)
    upload.write_bytes(LINES)
    Import.objects.update(lease_until=timezone.now() + timedelta(minutes=5))
    assert tasks.sweep() == {"lost": 0, "tidied": 0, "enqueued": 0}
    Import.objects.update(lease_until=timezone.now() - PAST)
    assert tasks.sweep() == {"lost": 1, "tidied": 0, "enqueued": 1}
    assert not import_queue.renew(lost)
    assert tasks.run(row.pk) == {"state": "done"}
    assert (Message.objects.count(), Conversation.objects.count()) == (2, 1)
    assert SCHEDULES["imports"] == ("convmemory.conversations.tasks.sweep", 1)


def test_an_import_that_is_interrupted_again_and_again_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_process, "run_child", lambda row, folder: Ending.CRASHED)
    row = queued(make_user())
    seen = [tasks.run(row.pk)["state"] for _ in range(import_queue.MAX_ATTEMPTS)]
    assert seen == ["queued"] * (import_queue.MAX_ATTEMPTS - 1) + ["failed"]
    row.refresh_from_db()
    assert (row.failure, uploads()) == ("interrupted", [])
    assert "interrupted 5 times: upload it in parts" in row.error


@pytest.mark.parametrize(
    ("content", "name", "failure", "error"),
    [
        (b"\x89PNG\r\n", "a.png", "unreadable", "Nothing could be imported; a.png: it looks like none of the formats"),
        (
            b'{"role": "user", "content": "%s"}' % (b"x" * 17 * 1024**2),
            "e.jsonl",
            "unreadable",
            "e.jsonl:1: the line is longer than 16 MB",
        ),
        (b"", "b.jsonl", "unreadable", "b.jsonl: the file is empty"),
        (b"\x1f\x8b broken", "c.gz", "unreadable", "c.gz is a damaged archive"),
        (b'[{"role": "user", "content": "x"}' + b",{}" * 1_000_001 + b"]", "d.json", "unreadable", "1,000,000 values"),
    ],
)
def test_what_cannot_be_read_is_said(content: bytes, name: str, failure: str, error: str) -> None:
    row = queued(make_user(), content, name)
    assert tasks.run(row.pk) == {"state": "failed"}
    row.refresh_from_db()
    assert row.failure == failure
    assert error in row.error
    assert uploads() == []


def test_an_error_of_the_server_is_said_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("convmemory.conversations.import_work.import_upload", broken)
    row = queued(make_user())
    assert tasks.run(row.pk) == {"state": "failed"}
    row.refresh_from_db()
    assert (row.failure, row.error) == ("internal", "An error of the server ended it: RuntimeError.")


def test_an_upload_that_is_not_where_the_worker_looks_is_said() -> None:
    row = queued(make_user())
    (Path(django_settings.IMPORT_FOLDER) / str(row.file.name)).unlink()
    assert tasks.run(row.pk) == {"state": "failed"}
    row.refresh_from_db()
    assert "IMPORT_FOLDER has to name one folder" in row.error


def test_an_import_that_was_erased_while_it_ran_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    row = claim(queued(make_user()))
    Import.objects.update(run=uuid.uuid4())
    assert run_here(row, str(django_settings.IMPORT_FOLDER) + "-1") is Ending.DONE
    assert not Conversation.objects.exists()
    Import.objects.update(run=row.run)
    monkeypatch.setattr(import_queue, "store_progress", lambda row, report: False)
    run_here(row, str(django_settings.IMPORT_FOLDER) + "-2")
    assert states() == ["running"]


def test_what_waits_is_bounded(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = make_user()
    with pytest.raises(InvalidInput, match="Unknown format 'magic'"):
        queue_import(owner=ada, file=SimpleUploadedFile("a", LINES), format="magic")
    monkeypatch.setattr("convmemory.conversations.imports.MAX_UNFINISHED", 2)
    queued(ada)
    queued(ada)
    with pytest.raises(TooManyAtOnce, match="2 imports of yours have not ended yet"):
        queued(ada)
    assert queued(make_user()).state == "queued"
    settings.MAX_UPLOAD_MB = 0
    with pytest.raises(TooLarge, match="MAX_UPLOAD_MB"):
        queued(make_user())
    assert len(uploads()) == 3


def test_tidy_deletes_rows_of_imports_that_ended_long_ago() -> None:
    queued(make_user())
    old = queued(make_user())
    tasks.run(old.pk)
    Import.objects.filter(pk=old.pk).update(ended_at=timezone.now() - import_queue.KEPT_FOR - PAST)
    assert import_queue.tidy() == 1
    assert states() == ["queued"]


def test_full_disk_while_an_upload_is_stored_leaves_no_file_and_no_row() -> None:
    ada = make_user()
    with files_end_at(1_000), pytest.raises(OSError, match="too large"):
        queued(ada, LINES * 1_000)
    assert (uploads(), Import.objects.count()) == ([], 0)


def test_import_that_meets_a_full_disk_fails_and_succeeds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_work, "keep_upload", lambda *_: None)
    ada = make_user()
    first = queued(ada, LINES * 100)
    with files_end_at(1_000):
        tasks.run(first.pk)
    first.refresh_from_db()
    assert (first.state, "disk is full" in first.error) == ("failed", True)
    tasks.run(queued(ada, LINES * 100).pk)
    assert Message.objects.count() == 200


def test_upload_whose_row_cannot_be_created_is_deleted() -> None:
    ada = make_user()
    stored = store_upload(SimpleUploadedFile("a.jsonl", LINES), owner_id=ada.pk)
    with pytest.raises(DataError), transaction.atomic():
        create_import(owner=ada, stored=replace(stored, name="x" * 1_000))
    assert uploads() == []
