"""Uploads are kept under a key, read again when an importer has been repaired, and go with what came in with them."""

import hashlib
import json
import os
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

from convmemory.accounts.callers import Caller
from convmemory.conversations import tasks
from convmemory.conversations.importers import plain
from convmemory.conversations.importing import imports, kept_uploads
from convmemory.conversations.importing.links import request_undo, undo
from convmemory.conversations.importing.models import Import, KeptConversation, KeptUpload
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Message
from convmemory.core.errors import InvalidInput
from convmemory.ops.doctor.rows_area import check_kept_uploads, check_merged
from convmemory.ops.privacy.erasing import erase_user
from tests.factories import make_user
from tests.support.full_disk import files_end_at
from tests.support.importing import run_at_once

pytestmark = pytest.mark.django_db(transaction=True)

CHAT = b'{"role": "user", "content": "where do zebrafish live?"}\n{"role": "assistant", "content": "In rivers."}\n'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    run_at_once(monkeypatch)
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"


def imported(owner: User, data: bytes = CHAT, name: str = "chat.jsonl") -> Import:
    row = imports.queue_import(caller=Caller.of(owner), file=SimpleUploadedFile(name, data))
    tasks.run(row.pk, archive_id=row.archive_id)
    row.refresh_from_db()
    return row


def files() -> list[Path]:
    return sorted(path for path in Path(django_settings.MEDIA_ROOT).rglob("*") if path.is_file())


def reimported(*arguments: str) -> str:
    output = StringIO()
    call_command("reimport", *arguments, stdout=output)
    return output.getvalue()


def stored() -> list[Any]:
    fields = ("pk", "position", "role", "parts", "turn_number", "source_key", "content_hash", "created_at")
    rows = Message.objects.order_by("pk").values_list(*fields)
    return [(*row[:6], bytes(row[6]), row[7]) for row in rows]


def test_conversations_that_earlier_version_mixed_are_found_and_taken_apart() -> None:
    owner = make_user()
    for question in ("What is a wherry?", "What is a ketch?"):
        request = {"message": {"text": question}, "response": [{"value": f"Not sure: {question}"}]}
        value = {"responderUsername": "Helper", "requesterUsername": "ada", "requests": [request]}
        imported(owner, json.dumps(value).encode(), name="chat.json")
    first, second = Conversation.objects.order_by("pk")
    upload = KeptConversation.objects.get(conversation=second).upload
    # As an earlier version left it: one conversation, named by the files, with the messages of the last of them.
    first.messages.all().delete()
    Message.objects.filter(conversation=second).update(conversation=first)
    Conversation.objects.filter(pk=first.pk).update(source_id="chat")
    second.delete()
    KeptConversation.objects.create(archive_id=owner.pk, upload=upload, conversation=first)
    [finding] = check_merged()
    assert "1 conversation" in finding.message
    reimported("--user", owner.username)
    prompts = Message.objects.filter(archive_id=owner.pk, role="user").values_list("parts", flat=True)
    assert sorted(parts[0]["text"] for parts in prompts) == ["What is a ketch?", "What is a wherry?"]
    assert Conversation.objects.filter(archive_id=owner.pk).count() == 2
    assert list(check_merged()) == []


def test_upload_is_kept_once_private_and_encrypted() -> None:
    owner = make_user()
    row = imported(owner)
    imported(owner, name="again.jsonl")
    (path,) = files()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.relative_to(django_settings.MEDIA_ROOT).as_posix() == f"uploads/{owner.pk}/{digest[:2]}/{digest}"
    assert row.digest == hashlib.sha256(CHAT).hexdigest()
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"zebrafish" not in path.read_bytes()
    kept = KeptUpload.objects.get()
    assert kept.stored_size == path.stat().st_size
    with kept_uploads.opened(kept) as file:
        assert file.read() == CHAT


def test_same_upload_of_two_people_is_kept_for_each() -> None:
    for name in ("ada", "bob"):
        imported(make_user(name))
    assert len(files()) == KeptUpload.objects.count() == 2


def test_reading_again_changes_nothing_where_importer_is_same() -> None:
    owner = make_user()
    imported(owner)
    before = stored()
    assert "0 messages new, 0 updated, 2 unchanged" in reimported("--user", owner.username)
    assert stored() == before
    assert Import.objects.count() == 1


@pytest.fixture
def broken() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain.PlainImporter, "parse", _refuse)
        yield patch


def _refuse(*_: object) -> Iterator[Any]:
    raise InvalidInput("not understood")


def test_repaired_importer_brings_in_what_was_refused(broken: pytest.MonkeyPatch) -> None:
    owner = make_user()
    assert imported(owner).state == Import.State.FAILED
    assert not Conversation.objects.exists()
    broken.undo()
    assert "2 messages new" in reimported()
    assert [row[2] for row in stored()] == ["user", "assistant"]
    again = Import.objects.exclude(report=None).order_by("-pk")[0]
    assert (again.name, again.state) == ("chat.jsonl", "done")
    before = stored()
    reimported()
    assert stored() == before


def test_deleted_conversation_loses_its_upload_and_is_not_reimported() -> None:
    owner = make_user()
    imported(owner)
    imported(owner, CHAT.replace(b"rivers", b"lakes"), "other.jsonl")
    gone = Conversation.objects.order_by("pk")[0]
    ingest.delete_for_good(caller=Caller.of(owner), conversation_id=gone.pk)
    assert len(files()) == 1
    reimported()
    assert Conversation.objects.count() == 1


def test_import_that_is_undone_is_not_read_again() -> None:
    owner = make_user()
    row = imported(owner)
    request_undo(caller=Caller.of(owner), import_id=row.pk)
    assert undo(caller=Caller.of(owner), import_id=row.pk, deadline=time.monotonic() + 60)
    assert files() == []
    assert "No upload is kept" in reimported()


def test_oldest_uploads_are_dropped_over_limit(settings: Any) -> None:
    owner = make_user()
    settings.MAX_KEPT_UPLOADS_MB = 1
    noise = [
        bytes(f'{{"role": "user", "content": "{number:x}{"".join(_hex(number))}"}}\n', "ascii") for number in range(3)
    ]
    for number, data in enumerate(noise):
        imported(owner, data, f"{number}.jsonl")
    assert [row.name for row in KeptUpload.objects.order_by("pk")] == ["2.jsonl"]
    assert len(files()) == 1
    settings.MAX_KEPT_UPLOADS_MB = 0
    assert imported(owner).kept is None


def _hex(seed: int) -> Iterator[str]:
    """Return random hexadecimal digits that take half a megabyte even if compressed."""
    import random

    dice = random.Random(seed)
    return (dice.randbytes(1_000).hex() for _ in range(500))


def test_import_on_full_disk_succeeds_without_keeping_upload() -> None:
    row = imports.queue_import(caller=Caller.of(make_user()), file=SimpleUploadedFile("chat.jsonl", CHAT))
    with files_end_at(len(CHAT)):  # encrypted, it is longer
        tasks.run(row.pk, archive_id=row.archive_id)
    row.refresh_from_db()
    assert (row.state, row.kept) == ("done", None)
    assert not KeptUpload.objects.exists()
    assert files() == []


def test_truncated_copy_is_not_taken_for_upload() -> None:
    owner = make_user()
    imported(owner)
    [file] = files()
    os.truncate(file, 50)
    [finding] = check_kept_uploads()
    assert finding.id == "rows.uploads-lost"
    imported(owner)
    [copy] = files()
    assert copy != file
    assert list(check_kept_uploads()) == []
    assert "2 unchanged" in reimported()


def test_reimport_reports_changed_secret_key(settings: Any) -> None:
    imported(make_user())
    settings.SECRET_KEY = "another one, long enough for Django to be content with it"
    assert "chat.jsonl: It cannot be decrypted: SECRET_KEY has changed" in reimported()


def test_doctor_finds_files_that_are_gone() -> None:
    imported(make_user())
    assert list(check_kept_uploads()) == []
    files()[0].unlink()
    [finding] = check_kept_uploads()
    assert finding.id == "rows.uploads-lost"
    assert "cannot be read: No such file" in reimported()
    assert finding.fix
    assert finding.fix() == "1 upload forgotten."
    assert Message.objects.count() == 2


def test_erasure_deletes_kept_uploads() -> None:
    owner = make_user()
    imported(owner)
    erase_user(user=owner)
    assert files() == []
