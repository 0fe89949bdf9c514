"""Documents are added by command, exported with their files, erased, swept and examined like conversations."""

import zipfile
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import Settings

from convmemory.documents.models import Document, Section
from convmemory.documents.storage import pictures_folder
from convmemory.ops.doctor.rows_area import check_documents
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.exporting import export_user
from convmemory.ops.runtime.sweeping import deep_sweep
from search.models import Item, PassageBlock, Source
from tests.factories import make_user
from tests.support.documents import GUIDE, indexed, upload

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("documents_here")]


@pytest.fixture
def owner() -> User:
    return make_user("ada")


def files() -> list[Path]:
    return [path for path in Path(django_settings.MEDIA_ROOT).rglob("*") if path.is_file()]


def test_folder_is_added_by_command(owner: User, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "empty.txt").write_text("")
    out = StringIO()
    with pytest.raises(CommandError, match="1 could not be read"):
        call_command("add_documents", str(folder), "--user", "ada", stdout=out, stderr=StringIO())
    assert "guide.md: document" in out.getvalue()
    assert Document.objects.get(status="ready").title == "Garden guide"


def test_documents_are_exported_with_their_files_and_erased(owner: User, tmp_path: Path) -> None:
    document = indexed(upload(owner, GUIDE))
    other = indexed(upload(make_user("bob"), GUIDE))
    report = export_user(user=owner, path=tmp_path / "ada.zip")
    assert (report.rows["documents_document"], report.rows["documents_section"]) == (1, 1)
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        assert archive.read(f"files/{document.file}").decode() == GUIDE
    assert erase_user(user=owner).finished
    assert [path.name for path in files()] == [other.digest]
    assert [row.pk for row in Document.objects.all()] == [other.pk]
    for model in (Section, Source, Item, PassageBlock):
        assert set(model.objects.values_list("archive__person__username", flat=True)) == {"bob"}, model


def test_deep_sweep_finds_nothing_wrong_with_document(owner: User) -> None:
    indexed(upload(owner, GUIDE))
    run = deep_sweep(enqueue=lambda ids: None)
    assert (run.found["orphaned"], run.found["stale"]) == (0, 0)


def test_doctor_finds_lost_file(owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    assert list(check_documents()) == []
    Path(document.file.path).unlink()
    assert [finding.id for finding in check_documents()] == ["rows.documents-lost"]


def test_deep_sweep_makes_room_where_pictures_of_pages_take_too_much(owner: User, settings: Settings) -> None:
    settings.MAX_PAGE_PICTURES_MB = 1
    folder = pictures_folder(archive_id=owner.pk, digest="ab" * 32)
    folder.mkdir(parents=True)
    for page in (1, 2):
        (folder / f"{page}.json").write_text("{}")
        (folder / f"{page}.webp").write_bytes(b" " * 700_000)
    run = deep_sweep(enqueue=lambda ids: None)
    assert (run.found["pictures"], run.fixed["pictures"]) == (1, 1)
    assert len(files()) == 2
