"""From an uploaded file to sections that are indexed: states, new versions, interruptions, limits."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.core.errors import InvalidInput, NotFound, TooLarge, TooManyAtOnce
from convmemory.core.models import OwnerTask
from convmemory.core.processes.child_process import Ending
from convmemory.documents import library, processing, tasks
from convmemory.documents.models import Document, Section
from convmemory.embeddings.spaces import active_space
from search.indexing.active import index_source
from search.indexing.status import index_status
from search.indexing.sweeping import find_damage, mark_damage, reconcile_sources
from search.models import Item, ItemEmbedding, PassageBlock, Source
from tests.factories import make_user
from tests.support.documents import GUIDE, convert_here, indexed, pdf_of, read, replace, upload
from tests.support.passages import stored_passages

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]


@pytest.fixture
def owner() -> User:
    return make_user("ada")


def files() -> list[Path]:
    from django.conf import settings

    return [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]


def test_upload_becomes_ready_and_is_embedded(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    document = upload(owner, GUIDE)
    assert document.status == "uploaded"
    with django_capture_on_commit_callbacks(execute=True):
        read(document)
    assert (document.status, document.title, document.section_count) == ("ready", "Garden guide", 1)
    assert OwnerTask.objects.filter(func="search.tasks.index").exists()
    indexed(document)
    assert ItemEmbedding.objects.filter(source__kind="document").count() >= 1
    assert sum(passage.kind == PassageBlock.Kind.DOCUMENT for passage in stored_passages()) >= 4
    assert index_status(caller=Caller.of(owner)).pending == 0


def test_documents_are_embedded_only_while_rag_is_on(owner: User, settings: Settings) -> None:
    settings.RAG_ENABLED = False
    document = indexed(upload(owner, GUIDE))
    assert Item.objects.filter(source__object_id=document.pk).exists()
    assert not PassageBlock.objects.exists()
    assert not ItemEmbedding.objects.exists()
    assert index_status(caller=Caller.of(owner)).pending == 0
    assert find_damage(active_space(), ("missing",)) == []
    settings.RAG_ENABLED = True
    assert mark_damage(find_damage(active_space(), ("missing",)), active_space()) == 1
    indexed(document)
    assert stored_passages()


def test_rag_is_on_by_default(settings: Settings) -> None:
    assert settings.RAG_ENABLED is True


def test_same_file_twice_is_one_document(owner: User) -> None:
    first = upload(owner, GUIDE)
    assert upload(owner, GUIDE, "other name.md").pk == first.pk
    assert upload(make_user(), GUIDE).pk != first.pk
    assert len(files()) == 2


def test_uploaded_name_is_no_part_of_path(owner: User) -> None:
    document = upload(owner, GUIDE, "../../etc/pass\x00wd\u202e.md")
    assert document.name == "passwd.md"
    assert Path(document.file.path).name == document.digest
    assert upload(owner, "x", "..").name == ".."


def test_foreign_and_unknown_documents_are_not_found_without_policies(owner: User) -> None:
    """The tests' own queries run as the tables' owner, like an installation with one log-in: the filters alone hold."""
    document_id, stranger = upload(owner, GUIDE).pk, make_user()
    for number in (document_id, document_id + 1):
        for find in (library.get_document, library.delete_document, library.retry_document):
            with pytest.raises(NotFound, match=f"no document {number}"):
                find(caller=Caller.of(stranger), document_id=number)
        with pytest.raises(NotFound, match=f"no document {number}"):
            library.own_documents(caller=Caller.of(stranger), document_ids=[number])
    assert library.get_document(caller=Caller.of(owner), document_id=document_id).pk == document_id


def test_deleting_document_deletes_its_file_and_rows(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    document = indexed(upload(owner, GUIDE))
    with django_capture_on_commit_callbacks(execute=True):
        library.delete_for_good(caller=Caller.of(owner), document_id=document.pk)
    assert files() == []
    for model in (Document, Section, Source, Item, PassageBlock, ItemEmbedding):
        assert not model.objects.exists(), model


def test_new_version_embeds_only_what_is_new(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    sections = [f"## Part {number}\n\n{f'Sentence {number} tells of something. ' * 12}\n" for number in range(30)]
    document = indexed(upload(owner, "".join(sections)))
    kept = set(Section.objects.values_list("pk", flat=True))
    replace(
        owner, document, "## News\n\nThis was not there before, and it is long enough. " * 6 + "\n" + "".join(sections)
    )
    with django_capture_on_commit_callbacks(execute=True):
        read(document)
    source = Source.objects.get(kind="document", object_id=document.pk)
    result = index_source(archive_id=source.archive_id, source_id=source.pk)
    assert 0 < result.computed <= 3
    assert kept <= set(Section.objects.values_list("pk", flat=True))
    assert len(files()) == 1
    for passage in stored_passages(is_kept=None):
        section = Section.objects.get(pk=passage.element_id)
        assert section.number == passage.item_number


def test_new_version_that_cannot_be_read_leaves_old_one(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    document = indexed(upload(owner, GUIDE))
    replace(owner, document, "%PDF-1.4 broken", "guide.pdf")
    read(document)
    assert (document.status, document.name, document.failure) == ("ready", "guide.md", "broken")
    assert "guide.pdf was not taken" in document.error
    assert len(files()) == 1


def test_file_that_is_another_document_is_no_new_version(owner: User) -> None:
    first, second = upload(owner, "one"), upload(owner, "two")
    with pytest.raises(InvalidInput, match=f"document {first.pk}"):
        replace(owner, second, "one")
    with pytest.raises(NotFound):
        replace(make_user(), first, "three")


@pytest.mark.parametrize(
    ("ending", "failure", "remedy"),
    [
        (Ending.OUT_OF_TIME, "time", "DOCUMENT_TIMEOUT_S"),
        (Ending.OUT_OF_MEMORY, "memory", "DOCUMENT_MEMORY_MB"),
        (Ending.CRASHED, "broken", "damaged"),
    ],
)
def test_child_that_ends_badly_is_failure_with_remedy(
    owner: User, monkeypatch: pytest.MonkeyPatch, ending: Ending, failure: str, remedy: str
) -> None:
    monkeypatch.setattr(processing, "run_child", lambda document, target: ending)
    document = read(upload(owner, GUIDE))
    assert (document.status, document.failure) == ("failed", failure)
    assert remedy in document.error
    monkeypatch.setattr(processing, "run_child", convert_here)
    assert read(library.retry_document(caller=Caller.of(owner), document_id=document.pk)).status == "ready"


def test_document_that_kills_its_workers_fails_after_max_attempts(owner: User) -> None:
    document = upload(owner, GUIDE)
    Document.objects.update(attempts=processing.MAX_ATTEMPTS, status="processing")
    assert (read(document).status, document.failure) == ("failed", "interrupted")


def test_sweep_enqueues_documents_without_task(owner: User) -> None:
    document = upload(owner, GUIDE)
    assert tasks.sweep() == {"enqueued": 1}
    assert OwnerTask.objects.get(func=tasks.PROCESS).args == [document.pk]
    assert tasks.sweep() == {"enqueued": 0}
    assert tasks.process(document.pk, archive_id=owner.pk) == {"status": "ready"}


def test_document_and_library_limits_are_enforced(
    owner: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_DOCUMENT_MB, settings.MAX_LIBRARY_MB = 1, 2
    with pytest.raises(TooLarge, match="MAX_DOCUMENT_MB"):
        library.require_acceptable(size=200 * 1024**2)
    upload(owner, b"x" * 1024**2)
    library.require_capacity(caller=Caller.of(owner), size=1024**2)
    with pytest.raises(TooLarge, match="MAX_LIBRARY_MB"):
        library.require_capacity(caller=Caller.of(owner), size=1024**2 + 1)
    monkeypatch.setattr(library, "MAX_UNFINISHED", 1)
    with pytest.raises(TooManyAtOnce):
        library.require_capacity(caller=Caller.of(owner), size=1)


def test_reconcile_repairs_sources_changed_without_signal(owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    Source.objects.all().delete()
    assert reconcile_sources() == 1
    assert Source.objects.get().object_id == document.pk
    Section.objects.all().delete()
    Document.objects.filter(pk=document.pk)._raw_delete("default")
    assert reconcile_sources() == 1
    assert not Source.objects.exists()


def test_pages_of_pdf_are_known(owner: User) -> None:
    document = read(upload(owner, pdf_of([[(12, "one")], [(12, "two")]]), "two.pdf"))
    assert (document.page_count, list(document.sections.values_list("page", flat=True))) == (2, [1, 2])
