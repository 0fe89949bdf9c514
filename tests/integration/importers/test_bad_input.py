"""Errors in one file are reported with their place and stop no other file; the next run imports the rest."""

import errno
import json
import os
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import zstandard
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError

from convmemory.accounts.callers import Caller
from convmemory.conversations import tasks
from convmemory.conversations.importing import imports, work
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.runner import ImportReport, import_paths
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Message
from tests.factories import make_user
from tests.support.importing import run_at_once
from tests.unit.importers.helpers import FIXTURES, assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db

FIRST, SECOND = "0c5e2b7a-0000-4000-8000-00000000000a", "0c5e2b7a-0000-4000-8000-00000000000b"
GOOD = (user_line("g1", "still here?"), assistant_line("g2", "yes"))


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A neighbour that nothing may happen to."""
    return write_lines(tmp_path / "in" / "good" / f"{SECOND}.jsonl", GOOD)


def imported(owner: User, path: Path) -> ImportReport:
    report = import_paths(caller=Caller.of(owner), paths=[path])
    assert Message.objects.filter(archive_id=owner.pk, source_key="g2").count() == 1
    return report


def message_texts(source_id: str) -> list[str]:
    rows = Conversation.objects.get(source_id=source_id).messages.order_by("position")
    return [row.parts[0]["text"] for row in rows]


def test_truncated_zstd_file_is_reported_and_imported_once_complete(owner: User, good: Path) -> None:
    original = next(FIXTURES.glob("codex/**/*.jsonl"))
    data = original.read_bytes() + (b" " * 999 + b"\n") * 400
    path = good.parents[1] / f"{original.name}.zst"
    path.write_bytes(zstandard.compress(data)[:-20])
    report = imported(owner, good.parents[1])
    (file,) = [file for file in report.files if file.path.endswith(".zst")]
    assert any("zstd" in error for error in file.errors)
    path.write_bytes(zstandard.compress(data))
    again = imported(owner, good.parents[1])
    assert not any(file.errors for file in again.files)
    count = Message.objects.count()
    assert import_paths(caller=Caller.of(owner), paths=[path]).total("added") == 0
    assert Message.objects.count() == count


def test_two_files_of_one_session_become_one_conversation_without_duplicates(owner: User, good: Path) -> None:
    opening = [user_line("u1", "one?"), assistant_line("a1", "1")]
    write_lines(good.parents[1] / "first" / f"{FIRST}.jsonl", opening)
    write_lines(good.parents[1] / "second" / f"{FIRST}.jsonl", [*opening, user_line("u2", "two?")])
    for _ in range(2):
        imported(owner, good.parents[1])
        assert message_texts(FIRST) == ["one?", "1", "two?"]


def test_clock_in_future_gives_no_date(owner: User, good: Path) -> None:
    lines = [
        user_line("u1", "when?", timestamp="2026-02-03T10:00:00Z"),
        assistant_line("a1", "later", timestamp="2999-01-01T00:00:00Z"),
    ]
    path = write_lines(good.parents[1] / f"{FIRST}.jsonl", lines)
    imported(owner, good.parents[1])
    conversation = Conversation.objects.get(source_id=FIRST)
    assert conversation.updated_at == datetime(2026, 2, 3, 10, tzinfo=UTC)
    assert {row.created_at for row in conversation.messages.all()} == {conversation.updated_at}
    ahead = (datetime.now(UTC) + timedelta(days=4_000)).timestamp()
    write_lines(path.with_name(f"{FIRST[:-1]}c.jsonl"), [{**user_line("u9", "and the file?"), "timestamp": "soon"}])
    os.utime(path.with_name(f"{FIRST[:-1]}c.jsonl"), (ahead, ahead))
    imported(owner, good.parents[1])
    assert Conversation.objects.get(source_id=f"{FIRST[:-1]}c").updated_at <= datetime.now(UTC)


def test_parents_in_circle_end(owner: User, good: Path) -> None:
    nodes = {
        name: {
            "id": name,
            "parent": parent,
            "children": [parent],
            "message": {"id": name, "author": {"role": role}, "content": {"content_type": "text", "parts": [name]}},
        }
        for name, parent, role in (("a", "b", "user"), ("b", "a", "assistant"))
    }
    chat = {"id": "circle-0001", "conversation_id": "circle-0001", "title": "t", "current_node": "b", "mapping": nodes}
    (good.parents[1] / "conversations.json").write_text(json.dumps([chat]))
    imported(owner, good.parents[1])
    assert set(message_texts("circle-0001")) == {"a", "b"}


def test_line_of_fifty_megabytes_is_named_and_left_out(owner: User, good: Path) -> None:
    path = write_lines(good.parents[1] / f"{FIRST}.jsonl", [user_line("u1", "one?")])
    with path.open("ab") as file:
        file.write(json.dumps(user_line("u2", "x" * 50_000_000)).encode() + b"\n")
        file.write(json.dumps(assistant_line("a1", "1")).encode() + b"\n")
    report = imported(owner, good.parents[1])
    (file_report,) = [file for file in report.files if FIRST in file.path]
    assert [issue.place.rpartition(":")[2] for issue in file_report.issues] == ["2"]
    assert message_texts(FIRST) == ["one?", "1"]


def test_zip_in_zip_is_read_and_damaged_one_is_named(owner: User, good: Path) -> None:
    inner = good.parents[1] / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(f"{FIRST}.jsonl", "\n".join(json.dumps(line) for line in GOOD[:1]))
    with zipfile.ZipFile(good.parents[1] / "outer.zip", "w") as archive:
        archive.write(inner, "deep/inner.zip")
        archive.writestr("deep/broken.zip", inner.read_bytes()[: inner.stat().st_size // 2])
    inner.unlink()
    report = imported(owner, good.parents[1])
    assert message_texts(FIRST) == ["still here?"]
    assert any("damaged archive" in error for file in report.files for error in file.errors)


def uploaded(owner: User) -> Import:
    data = "\n".join(json.dumps(line) for line in GOOD).encode()
    row = imports.queue_import(caller=Caller.of(owner), file=SimpleUploadedFile(f"{SECOND}.jsonl", data))
    tasks.run(row.pk, archive_id=row.archive_id)
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("stage", ["unpacking", "storing"])
def test_import_after_full_disk_succeeds(
    owner: User, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, stage: str
) -> None:
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"
    run_at_once(monkeypatch)

    def no_space(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_room_in_the_database(*_: object, **__: object) -> None:
        raise OperationalError("could not extend file") from psycopg.errors.DiskFull("could not extend file")

    with monkeypatch.context() as patch:
        if stage == "unpacking":
            patch.setattr(work, "import_upload", no_space)
        else:
            patch.setattr(ingest, "sync_conversation", no_room_in_the_database)
        row = uploaded(owner)
    assert row.state == Import.State.FAILED
    assert "disk is full" in row.error
    assert uploaded(owner).state == Import.State.DONE
    assert Message.objects.count() == 2
