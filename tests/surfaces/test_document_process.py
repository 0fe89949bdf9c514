"""Documents as a worker reads them: in a real child process, which has limits and is told no secret."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space
from convmemory.core.acting import acting_for
from convmemory.core.processes import child_process
from convmemory.documents import drawing, library, tasks
from convmemory.documents.models import Document
from tests.factories import make_user
from tests.support.documents import GUIDE, pdf_of, upload
from tests.support.full_disk import files_end_at
from tests.support.patience import PROCESSES_S, wait_until
from tests.support.slow_files import slow_pdf
from tests.support.worker import running_worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def owner(settings: Settings, tmp_path: Path) -> User:
    settings.MEDIA_ROOT = tmp_path / "media"
    return make_user("ada")


@pytest.fixture
def suspend() -> Iterator[Callable[[str], None]]:
    """Suspends processes of documents; they are killed after the test: one that is stopped outlives its worker."""
    stopped: list[psutil.Process] = []

    def suspend(module: str) -> None:
        for child in reading(module):
            child.suspend()
            stopped.append(child)

    yield suspend
    for child in stopped:
        with suppress(psutil.NoSuchProcess):
            child.kill()


def test_worker_reads_uploaded_pdf(owner: User) -> None:
    document = upload(owner, pdf_of([[(12, "one")], [(12, "two")]]), "two.pdf")
    assert tasks.process(document.pk, archive_id=document.archive_id) == {"status": "ready"}
    assert list(document.sections.values_list("page", flat=True)) == [1, 2]


def test_reading_that_takes_too_long_is_ended(owner: User, settings: Settings) -> None:
    settings.DOCUMENT_TIMEOUT_S = 0
    document = upload(owner, GUIDE * 1_000, "long.md")  # a short one may be read before the first check
    assert tasks.process(document.pk, archive_id=document.archive_id) == {"status": "failed"}
    document.refresh_from_db()
    assert (document.failure, "DOCUMENT_TIMEOUT_S" in document.error) == ("time", True)


def test_drawing_without_progress_is_ended(owner: User, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DOCUMENT_STALL_S = 1
    monkeypatch.setattr(child_process, "HEARTBEAT_S", 0.1)
    endings = []
    run_child = child_process.run_child
    monkeypatch.setattr(
        child_process, "run_child", lambda *given, **by_name: endings.append(run_child(*given, **by_name))
    )
    document = upload(owner, slow_pdf(), "slow.pdf")
    Document.objects.update(status="ready", format="pdf", page_count=1)
    assert tasks.draw(document.pk, 1, archive_id=owner.pk) == {"drawn": 0}
    assert endings == [child_process.Ending.STALLED]


def test_reading_without_progress_names_setting(
    owner: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DOCUMENT_STALL_S = 1
    monkeypatch.setattr(child_process, "HEARTBEAT_S", 0.1)
    document = upload(owner, slow_pdf(texts=40), "slow.pdf")
    assert tasks.process(document.pk, archive_id=owner.pk) == {"status": "failed"}
    document.refresh_from_db()
    assert (document.failure, "1 s (DOCUMENT_STALL_S)" in document.error) == ("time", True)


def test_hanging_document_of_one_owner_does_not_keep_anothers_from_being_read(
    owner: User, tmp_path: Path, settings: Settings, suspend: Callable[[str], None]
) -> None:
    bob = make_user("bob")
    hanging = [upload(owner, slow_pdf(texts=40 + number), f"{number}.pdf") for number in range(3)]
    for document in hanging:
        tasks.enqueue_document(archive_id=owner.pk, document_id=document.pk)
    variables = {"WORKERS": "3", "MEDIA_ROOT": str(settings.MEDIA_ROOT), "DOCUMENT_STALL_S": "3600"}
    with running_worker(variables, tmp_path / "worker.log"):
        wait_until(lambda: reading(), "the first document", PROCESSES_S)
        suspend("converting")  # it hangs from now on, however fast the machine is
        small = upload(bob, GUIDE)
        tasks.enqueue_document(archive_id=bob.pk, document_id=small.pk)
        wait_until(lambda: Document.objects.get(pk=small.pk).status == "ready", "the other's document", PROCESSES_S)
    statuses = [Document.objects.get(pk=document.pk).status for document in hanging]
    assert sorted(statuses) == ["processing", "uploaded", "uploaded"]


def test_pages_that_one_person_hangs_in_eight_spaces_do_not_delay_anothers_document(
    owner: User, tmp_path: Path, settings: Settings, suspend: Callable[[str], None]
) -> None:
    bob, spaces = make_user("bob"), [create_space(person=owner, name=f"Room {number}") for number in range(8)]
    hanging = [upload(space, slow_pdf(), "slow.pdf") for space in spaces]
    Document.objects.update(status="ready", format="pdf", page_count=1)

    def wait_of_bob(number: int) -> float:
        document, began = upload(bob, f"{GUIDE}{number}"), time.monotonic()
        tasks.enqueue_document(archive_id=bob.pk, document_id=document.pk)
        wait_until(lambda: Document.objects.get(pk=document.pk).status == "ready", "the other's document", PROCESSES_S)
        return time.monotonic() - began

    variables = {"WORKERS": "3", "MEDIA_ROOT": str(settings.MEDIA_ROOT), "DOCUMENT_STALL_S": "3600"}
    with running_worker(variables, tmp_path / "worker.log"):
        wait_of_bob(0)  # until the worker has started
        quiet = [wait_of_bob(number) for number in (1, 2, 3)]
        for document in hanging:
            with acting_for(document.archive_id, person_id=owner.pk):
                tasks.enqueue_drawing(archive_id=document.archive_id, document_id=document.pk, page=1)
        wait_until(lambda: reading("draw_child"), "the first page", PROCESSES_S)
        suspend("draw_child")  # it hangs from now on, however fast the machine is
        busy = [wait_of_bob(number) for number in (4, 5, 6)]
        assert len(reading("draw_child")) == 1
    assert min(busy) < 3 * max(quiet), (busy, quiet)


def reading(module: str = "converting") -> list[psutil.Process]:
    """The processes that convert a document, or draw pages, for a worker of this test."""
    found = psutil.Process().children(recursive=True)
    return [process for process in found if is_of_documents(process, module)]


def is_of_documents(process: psutil.Process, module: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return f"convmemory.documents.{module}" in process.cmdline()
    return False


def test_reading_that_needs_too_much_memory_is_ended(owner: User, settings: Settings) -> None:
    settings.DOCUMENT_MEMORY_MB, settings.MAX_DOCUMENT_CHARS = 256, 10**9
    document = upload(owner, "\u20acuro " * 20 * 1024**2, "large.txt")
    assert tasks.process(document.pk, archive_id=document.archive_id) == {"status": "failed"}
    document.refresh_from_db()
    assert (document.failure, "DOCUMENT_MEMORY_MB" in document.error) == ("memory", True)


def test_full_disk_while_document_is_read_is_said_and_can_be_tried_again(owner: User) -> None:
    document = upload(owner, GUIDE * 1_000, "long.md")
    with files_end_at(10_000):
        assert tasks.process(document.pk, archive_id=document.archive_id) == {"status": "failed"}
    document.refresh_from_db()
    assert (document.failure, "disk is full" in document.error) == ("internal", True)
    library.retry_document(caller=Caller.of(owner), document_id=document.pk)
    assert tasks.process(document.pk, archive_id=document.archive_id) == {"status": "ready"}


def test_pages_that_met_full_disk_are_drawn_later(owner: User) -> None:
    document = upload(owner, pdf_of([[(12, "one")], [(12, "two")]]), "two.pdf")
    tasks.process(document.pk, archive_id=document.archive_id)
    document.refresh_from_db()
    with files_end_at(200):
        assert tasks.draw(document.pk, 1, archive_id=owner.pk) == {"drawn": 0}
    assert drawing.picture_of(document, 1) is None
    assert tasks.draw(document.pk, 1, archive_id=owner.pk) == {"drawn": 2}


def test_child_process_gets_no_secrets_in_its_environment(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}

    def run_child(module: str, arguments: Any, *, environment: Any, **options: Any) -> child_process.Ending:
        given.update(environment)
        return child_process.Ending.CRASHED

    for name in ("SECRET_KEY", "DATABASE_URL", "CHAT_API_KEY"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setattr(child_process, "run_child", run_child)
    tasks.process(upload(owner, GUIDE).pk, archive_id=owner.pk)
    assert given
    assert "hush" not in given.values()


def test_worker_draws_pages_of_pdf(owner: User) -> None:
    document = upload(owner, pdf_of([[(12, f"page {number}")] for number in range(1, 11)]), "ten.pdf")
    tasks.process(document.pk, archive_id=owner.pk)
    document.refresh_from_db()
    assert drawing.picture_of(document, 9) is None
    assert tasks.draw(document.pk, drawing.first_of_batch(10), archive_id=owner.pk) == {"drawn": 2}
    picture = drawing.picture_of(document, 10)
    assert picture is not None
    assert [[word[0] for word in line] for line in picture.lines] == [["page", "10"]]
    assert drawing.picture_of(document, 8) is None
    file = drawing.picture_file(document, 10)
    assert file is not None
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    library.delete_for_good(caller=Caller.of(owner), document_id=document.pk)
    assert not file.parent.exists()


def test_undrawable_page_is_recorded_as_not_drawn(owner: User, settings: Settings) -> None:
    document = upload(owner, pdf_of([[(12, "one")]]), "one.pdf")
    tasks.process(document.pk, archive_id=owner.pk)
    document.refresh_from_db()
    Path(document.file.path).write_bytes(b"%PDF-1.4 damaged meanwhile")
    assert tasks.draw(document.pk, 1, archive_id=owner.pk) == {"drawn": 0}
    picture = drawing.picture_of(document, 1)
    assert picture is not None
    assert not picture.is_drawn
