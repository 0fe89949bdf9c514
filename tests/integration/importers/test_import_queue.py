"""Imports as workers take them: one of an owner at a time, a worker left free, lost ones found, uploads cleaned up."""

import uuid
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space
from convmemory.conversations import tasks
from convmemory.conversations.importing import queue, work
from convmemory.conversations.importing.imports import create_import, queue_import, store_upload
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation, Message
from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, TooLarge, TooManyAtOnce
from convmemory.core.processes.child_process import Ending
from convmemory.core.queue import fair_queue
from convmemory.documents.tasks import enqueue_document, enqueue_drawing
from convmemory.ops.runtime.schedules import SCHEDULES
from tests.factories import add_member, make_user
from tests.support.full_disk import files_end_at
from tests.support.importing import run_here, uploads
from tests.support.queue import drop_all
from tests.support.queue import queued as waiting_tasks

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'
PAST = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(queue, "run_child", run_here)
    settings.IMPORT_FOLDER = tmp_path / "imports"
    settings.WORKERS = 4


def queued(owner: User, content: bytes = LINES, name: str = "chat.jsonl") -> Import:
    return queue_import(caller=Caller.of(owner), file=SimpleUploadedFile(name, content))


def enqueued() -> list[int]:
    """The imports in the queue, which is emptied."""
    import_ids = [args[0] for _, args in waiting_tasks(tasks.RUN)]
    drop_all()
    return import_ids


def states() -> list[str]:
    return list(Import.objects.order_by("pk").values_list("state", flat=True))


def try_to_claim(row: Import) -> Import | None:
    return queue.claim(archive_id=row.archive_id, import_id=row.pk)


def claim(row: Import) -> Import:
    claimed = try_to_claim(row)
    assert claimed
    return claimed


def test_queued_upload_is_private_and_deleted_after_import() -> None:
    row = queued(make_user())
    (name,) = uploads()
    folder = config.import_folder
    assert (row.state, row.file.name, row.size) == ("queued", name, len(LINES))
    assert (folder.stat().st_mode & 0o777, (folder / name).stat().st_mode & 0o777) == (0o700, 0o600)
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    row.refresh_from_db()
    assert row.report
    assert (row.report["total"]["added"], row.messages_read, row.files_read) == (2, 2, 1)
    assert (row.file.name, row.run, row.lease_until) == ("", None, None)
    assert uploads() == []
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "not now"}


def test_second_import_of_owner_waits_until_first_has_ended() -> None:
    ada, bob = make_user(), make_user()
    first, second, of_bob = queued(ada), queued(ada), queued(bob)
    claimed = claim(first)
    assert try_to_claim(first) is None
    assert tasks.run(second.pk, archive_id=ada.pk) == {"state": "not now"}
    assert tasks.run(of_bob.pk, archive_id=bob.pk) == {"state": "done"}
    with pytest.raises(IntegrityError), transaction.atomic():
        Import.objects.filter(pk=second.pk).update(state="running")
    assert tasks.sweep()["enqueued"] == 0
    queue.fail(claimed, Import.Failure.TIME, "too slow")
    assert tasks.sweep()["enqueued"] == 1
    assert tasks.sweep()["enqueued"] == 0, "it is in the queue already"
    assert enqueued() == [second.pk]
    third = queued(ada)
    assert tasks.run(second.pk, archive_id=ada.pk) == {"state": "done"}
    assert enqueued() == [third.pk]


def test_imports_documents_and_drawings_share_places_of_long_tasks(settings: Any) -> None:
    settings.WORKERS = 3
    ada, bob, cy = make_user(), make_user(), make_user()
    tasks.enqueue_import(archive_id=ada.pk, import_id=queued(ada, LINES * 9_000).pk)
    enqueue_document(archive_id=ada.pk, document_id=1)
    enqueue_drawing(archive_id=ada.pk, document_id=2, page=1)
    enqueue_document(archive_id=bob.pk, document_id=3)
    tasks.enqueue_import(archive_id=cy.pk, import_id=queued(cy).pk)
    taken = [fair_queue.claim() for _ in range(4)]
    owners = [task and task.archive_id for task in taken]
    assert owners == [ada.pk, bob.pk, None, None], "one of each owner, and the last worker is for none"


def test_import_whose_worker_died_runs_again_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    row = queued(make_user())
    lost = claim(row)
    run_here(lost, str(config.import_folder) + "-1")
    Import.objects.update(state="running", run=lost.run, file=row.file.name)  # it died before it could say so
    upload = config.import_folder / str(row.file.name)
    upload.write_bytes(LINES)
    Import.objects.update(lease_until=timezone.now() + timedelta(minutes=5))
    assert tasks.sweep() == {"lost": 0, "tidied": 0, "enqueued": 0}
    Import.objects.update(lease_until=timezone.now() - PAST)
    assert tasks.sweep() == {"lost": 1, "tidied": 0, "enqueued": 1}
    assert not queue.renew(lost)
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "done"}
    assert (Message.objects.count(), Conversation.objects.count()) == (2, 1)
    assert SCHEDULES["imports"] == ("convmemory.conversations.tasks.sweep", 1)


def test_import_that_is_interrupted_again_and_again_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "run_child", lambda row, folder: Ending.CRASHED)
    row = queued(make_user())
    seen = [tasks.run(row.pk, archive_id=row.archive_id)["state"] for _ in range(queue.MAX_ATTEMPTS)]
    assert seen == ["queued"] * (queue.MAX_ATTEMPTS - 1) + ["failed"]
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
def test_unreadable_upload_fails_with_reason(content: bytes, name: str, failure: str, error: str) -> None:
    row = queued(make_user(), content, name)
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert row.failure == failure
    assert error in row.error
    assert uploads() == []


def test_internal_error_is_reported_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("convmemory.conversations.importing.work.import_upload", broken)
    row = queued(make_user())
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert (row.failure, row.error) == ("internal", "An error of the server ended it: RuntimeError.")


def test_missing_upload_error_names_import_folder() -> None:
    row = queued(make_user())
    (config.import_folder / str(row.file.name)).unlink()
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "failed"}
    row.refresh_from_db()
    assert "IMPORT_FOLDER has to name one folder" in row.error


def test_import_that_was_erased_while_it_ran_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    row = claim(queued(make_user()))
    Import.objects.update(run=uuid.uuid4())
    assert run_here(row, str(config.import_folder) + "-1") is Ending.DONE
    assert not Conversation.objects.exists()
    Import.objects.update(run=row.run)
    monkeypatch.setattr(queue, "store_progress", lambda row, report: False)
    run_here(row, str(config.import_folder) + "-2")
    assert states() == ["running"]


def test_queued_imports_are_limited_by_count_and_size(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = make_user()
    with pytest.raises(InvalidInput, match="Unknown format 'magic'"):
        queue_import(caller=Caller.of(ada), file=SimpleUploadedFile("a", LINES), format="magic")
    monkeypatch.setattr("convmemory.conversations.importing.imports.MAX_UNFINISHED", 2)
    queued(ada)
    queued(ada)
    with pytest.raises(TooManyAtOnce, match="2 imports of yours have not ended yet"):
        queued(ada)
    assert queued(make_user()).state == "queued"
    settings.MAX_UPLOAD_MB = 0
    with pytest.raises(TooLarge, match="MAX_UPLOAD_MB"):
        queued(make_user())
    assert len(uploads()) == 3


def test_queued_imports_of_person_are_limited_over_all_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.conversations.importing.imports.MAX_UNFINISHED", 3)
    ada, bob = make_user(), make_user()
    spaces = [create_space(person=ada, name=f"Room {number}").pk for number in range(3)]
    add_member(person=ada, space_id=spaces[0], username=bob.username, role="contributor")

    def queue_in(archive_id: int, person: User, number: int) -> None:
        with acting_for(archive_id, person_id=person.pk):
            file = SimpleUploadedFile(f"{number}.jsonl", LINES)
            queue_import(caller=Caller.for_archive(archive_id), file=file)

    for number, archive_id in enumerate((ada.pk, *spaces[:2])):
        queue_in(archive_id, ada, number)
    with pytest.raises(TooManyAtOnce, match="3 imports of yours"):
        queue_in(spaces[2], ada, 4)
    for number in (5, 6):
        queue_in(spaces[0], bob, number)
    queue_in(bob.pk, bob, 7)
    Import.objects.filter(started_by=ada.pk).update(state="done")
    queue_in(spaces[0], ada, 8)
    with pytest.raises(TooManyAtOnce, match="3 imports of this space"):
        queue_in(spaces[0], ada, 9)
    with acting_for(spaces[0], person_id=bob.pk), connection.cursor() as cursor:
        cursor.execute("SELECT uploads FROM convmemory_waiting_uploads()")
        assert cursor.fetchone() == (3,)


def test_tidy_deletes_rows_of_imports_that_ended_long_ago() -> None:
    queued(make_user())
    old = queued(make_user())
    tasks.run(old.pk, archive_id=old.archive_id)
    Import.objects.filter(pk=old.pk).update(ended_at=timezone.now() - queue.KEPT_FOR - PAST)
    assert queue.tidy() == 1
    assert states() == ["queued"]


def test_full_disk_while_upload_is_stored_leaves_no_file_and_no_row() -> None:
    ada = make_user()
    with files_end_at(1_000), pytest.raises(OSError, match="too large"):
        queued(ada, LINES * 1_000)
    assert (uploads(), Import.objects.count()) == ([], 0)


def test_import_that_meets_full_disk_fails_and_succeeds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "keep_upload", lambda *_: None)
    ada = make_user()
    first = queued(ada, LINES * 100)
    with files_end_at(1_000):
        tasks.run(first.pk, archive_id=ada.pk)
    first.refresh_from_db()
    assert (first.state, "disk is full" in first.error) == ("failed", True)
    tasks.run(queued(ada, LINES * 100).pk, archive_id=ada.pk)
    assert Message.objects.count() == 200


def test_upload_whose_row_cannot_be_created_is_deleted() -> None:
    ada = make_user()
    stored = store_upload(SimpleUploadedFile("a.jsonl", LINES), archive_id=ada.pk)
    with pytest.raises(DataError), transaction.atomic():
        create_import(caller=Caller.of(ada), stored=replace(stored, name="x" * 1_000))
    assert uploads() == []
