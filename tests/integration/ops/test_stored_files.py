"""Files outside the database: whole or not there, none without a row, none left of an erased person."""

import io
import os
import shutil
import time
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.migrations.recorder import MigrationRecorder

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.imports import queue_import
from convmemory.conversations.importing.models import kept_place
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.files.work_folders import work_folder
from convmemory.documents import drawing, library
from convmemory.documents.storage import document_storage, pictures_folder
from convmemory.ops.doctor.rows_area import check_documents, check_files
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy import backup, exporting, stored_files
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.stored_files import FilesLeft, find_orphans, sweep_orphans
from convmemory.ops.runtime.sweeping import deep_sweep
from tests.factories import make_user
from tests.support.documents import GUIDE, pdf_of, read, upload
from tests.support.full_disk import files_end_at

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

AT_ONCE = timedelta(0)
LARGE = (b"A line of a long text.\n" * 10_000).decode()


@pytest.fixture(autouse=True)
def _folders_of_this_test(settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_FOLDER, settings.TEMPORARY_FOLDER = tmp_path / "imports", tmp_path / "work"


def files() -> list[str]:
    """The files of people, by their paths below the folder that has all of them."""
    folder = config.media_root.parent
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def store(owner: User, content: str) -> library.StoredFile:
    return library.store_file(archive_id=owner.pk, file=io.BytesIO(content.encode()), name="a.md")


def let_an_hour_pass(folder: Path) -> None:
    then = time.time() - 3_700
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.fixture
def old_database() -> None:
    """The database was made long before the files."""
    MigrationRecorder.Migration.objects.filter(app="auth").update(applied="2020-01-01T00:00:00Z")


def test_same_document_uploaded_again_after_full_disk_is_read_whole(owner: User) -> None:
    with files_end_at(100_000), pytest.raises(OSError, match="too large"):
        store(owner, LARGE)
    assert files() == []
    document = read(upload(owner, LARGE))
    assert (document.status, document.file.size) == ("ready", len(LARGE))
    assert document.char_count >= len(LARGE) - 1


def test_truncated_file_of_earlier_version_is_replaced_by_same_upload(owner: User) -> None:
    document = upload(owner, LARGE)
    os.truncate(document.file.path, 100_000)
    assert [finding.id for finding in check_documents()] == ["rows.documents-damaged"]
    assert (read(document).status, document.error) == ("failed", "The stored file is damaged. Upload it again.")
    again = library.add_document(caller=Caller.of(owner), stored=store(owner, LARGE))
    assert (again.document.pk, again.is_new) == (document.pk, True)
    assert (read(document).status, document.char_count >= len(LARGE) - 1) == ("ready", True)
    assert library.add_document(caller=Caller.of(owner), stored=store(owner, LARGE)).is_new is False


def test_page_picture_is_drawn_again_after_full_disk(owner: User, tmp_path: Path) -> None:
    document = read(upload(owner, pdf_of([[(12, "one")]]), "one.pdf"))
    (tmp_path / "1.webp").write_bytes(bytes(50_000))
    (tmp_path / "1.json").write_text('{"width": 1, "height": 1, "lines": []}')
    with files_end_at(20_000), pytest.raises(OSError, match="too large"):
        drawing._keep(document, tmp_path, 1)
    assert [name for name in files() if "pictures/" in name] == []
    assert drawing.picture_of(document, 1) is None
    assert drawing._keep(document, tmp_path, 1)
    assert drawing.picture_file(document, 1)


def test_archive_that_meets_full_disk_fails_and_leaves_no_file(owner: User) -> None:
    read(upload(owner, os.urandom(60_000).hex()))
    before = files()
    row = exporting.request_archive(caller=Caller.of(owner))
    with files_end_at(30_000):
        assert exporting.write_archive(archive_id=owner.pk, own_archive_id=row.pk) == "failed"
    row.refresh_from_db()
    assert "cannot be written" in row.error
    assert files() == before


def test_backup_leaves_out_damaged_file_and_stays_restorable(owner: User, tmp_path: Path) -> None:
    whole, damaged = upload(owner, GUIDE), upload(owner, LARGE)
    os.truncate(damaged.file.path, 100_000)
    with zipfile.ZipFile(tmp_path / "backup.zip", "w") as archive:
        assert backup.add_files(archive, [str(whole.file), str(damaged.file)]) == 1
    with zipfile.ZipFile(tmp_path / "backup.zip") as archive:
        backup.verify_files(archive)


def test_restoring_backup_replaces_truncated_file(owner: User, tmp_path: Path) -> None:
    document = upload(owner, LARGE)
    with zipfile.ZipFile(tmp_path / "backup.zip", "w") as archive:
        backup.add_files(archive, [str(document.file)])
    os.truncate(document.file.path, 100_000)
    with zipfile.ZipFile(tmp_path / "backup.zip") as archive:
        assert backup.restore_files(archive) == [str(document.file)]
        assert backup.restore_files(archive) == []
    assert Path(document.file.path).read_text() == LARGE


@pytest.mark.usefixtures("old_database")
def test_sweep_deletes_files_without_row_and_no_others(owner: User, tmp_path: Path) -> None:
    document = upload(owner, GUIDE)
    store(owner, "orphan")
    waiting = queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("a.jsonl", b"{}"))
    archive = OwnArchive.objects.create(person_id=owner.pk, state="done", file=f"archives/{owner.pk}/a.zip")
    named = [str(document.file), str(archive.file)]
    orphans = [f"archives/{owner.pk}/b.zip", kept_place(archive_id=owner.pk, digest="ab" * 32), "documents/999/ab/cd"]
    for digest in (document.digest, "cd" * 32):
        folder = pictures_folder(archive_id=owner.pk, digest=digest)
        (named if digest == document.digest else orphans).append(f"{folder.relative_to(config.media_root)}/1.json")
    for name in [*named[1:], *orphans]:
        path = Path(document_storage().path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"text")
    draft = pictures_folder(archive_id=owner.pk, digest=document.digest) / "1.webp.0.partial"
    draft.write_bytes(b"half")
    imports = config.import_folder
    for name in (f"{owner.pk}/orphan", "ab" * 16, "of something else"):
        (imports / name).write_bytes(b"x")
    assert sweep_orphans() == 0  # an upload whose row is being created
    let_an_hour_pass(tmp_path)
    [finding] = check_files()
    assert finding.id == "rows.files-orphaned"
    assert deep_sweep(enqueue=lambda ids: None).fixed["files"] == len(orphans) + 4
    kept = [*(f"media/{name}" for name in named), f"imports/{waiting.file}", "imports/of something else"]
    assert files() == sorted(kept)
    assert list(check_files()) == []


@pytest.mark.usefixtures("old_database")
def test_orphan_that_is_uploaded_again_is_not_swept(owner: User, tmp_path: Path) -> None:
    store(owner, "orphan")
    let_an_hour_pass(tmp_path)
    assert len(find_orphans()) == 1
    stored = store(owner, "orphan")
    assert sweep_orphans() == 0
    assert library.add_document(caller=Caller.of(owner), stored=stored).is_new


def test_files_older_than_database_are_not_its_orphans(owner: User, tmp_path: Path) -> None:
    store(owner, "of a database that is about to be restored")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert sweep_orphans() == 0
    assert len(files()) == 1


def test_orphans_are_not_looked_for_where_rows_are_hidden(owner: User) -> None:
    with acting.acting_for(owner.pk), pytest.raises(RuntimeError, match="maintenance"):
        find_orphans()


@pytest.mark.usefixtures("old_database")
def test_sweep_examines_bounded_number_of_files(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        store(owner, f"orphan {number}")
    monkeypatch.setattr(stored_files, "MAX_EXAMINED", 3)
    monkeypatch.setattr(stored_files, "BATCH", 2)
    assert [sweep_orphans(older_than=AT_ONCE) for _ in range(3)] == [3, 2, 0]


def test_erasure_leaves_no_file_of_person_with_or_without_row(owner: User) -> None:
    other = make_user()
    for person in (owner, other):
        upload(person, f"A document of {person.pk}")
        store(person, f"An orphan of {person.pk}")
        queue_import(caller=Caller.of(person), file=SimpleUploadedFile("a.jsonl", b"{}"))
        for kind in ("archives", "uploads", "pictures"):
            path = Path(config.media_root, kind, str(person.pk), "ab", "orphan")
            path.parent.mkdir(parents=True)
            path.write_bytes(b"text")
    before = [name for name in files() if f"/{other.pk}/" in name]
    with work_folder("import", archive_id=owner.pk, claim=1) as folder:
        (folder / "chat.jsonl").write_text("text")
        receipt = erase_user(user=owner)
    assert receipt.finished
    assert receipt.deleted["files"] == 7
    assert files() == before
    assert len(before) == 6


def test_erasure_is_not_finished_while_file_cannot_be_deleted(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    store(owner, "An orphan")

    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        with pytest.raises(FilesLeft, match="Permission denied"):
            erase_user(user=owner)
    assert User.objects.filter(pk=owner.pk, is_active=False).exists()
    assert erase_user(user=owner).finished
    assert files() == []
