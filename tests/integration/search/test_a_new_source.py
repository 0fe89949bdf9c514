"""A kind of source that the product has never heard of is indexed, searched, re-embedded, exported and erased."""

import json
import zipfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.embeddings import spaces
from convmemory.ops.privacy import ownership
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.privacy.exporting import export_user
from convmemory.ops.runtime.sweeping import deep_sweep
from search.indexing.active import index_source
from search.indexing.status import index_status
from search.indexing.sweeping import sources_to_index
from search.models import ItemEmbedding, PassageBlock, Source
from search.query import SearchQuery
from search.results.hits import Hit
from search.searching import search
from search.tasks import index
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support import diary as diary_module
from tests.support.diary import Entry, kept_diaries, write
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db(transaction=True)

SEVEN = 7  # the diary's number, which is no source's


@pytest.fixture(autouse=True)
def diaries(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The diary's table among those of people, and two tiny models."""
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "old", seed=1))
    new = write_tiny_bert(tmp_path / "new", seed=2, dimensions=64)
    known = ownership.all_models()
    monkeypatch.setattr(ownership, "all_models", lambda: [*known, Entry])
    with kept_diaries():
        ownership.owned_tables.cache_clear()
        ownership.owned_by_name.cache_clear()
        yield new
    spaces._opened.reset()
    ownership.owned_tables.cache_clear()
    ownership.owned_by_name.cache_clear()


@pytest.fixture
def owner() -> User:
    user = make_user("ada")
    chat = make_conversation(user, exchange(("why, cat?", "the mat, the mat.")))
    write(user, SEVEN, "the cat sat on the mat.", "the mat, the mat.", "a b c d e f.", version=1)
    assert sources_to_index(limit=9) == [diary().pk]  # the conversation's task is in the queue
    for pk in (source_id(chat), diary().pk):
        index(pk, archive_id=user.pk)
    return user


def diary() -> Source:
    return Source.objects.get(kind="diary", object_id=SEVEN)


def found(user: User, text: str = "the cat sat on the mat", **filters: object) -> list[Hit]:
    query = SearchQuery(text=text, filters=Filters(**filters), has_operators=True)  # type: ignore[arg-type]
    return [hit for hit in search(caller=Caller.of(user), query=query).hits if hit.kind == "diary"]


def test_items_of_new_source_are_found_and_shown(owner: User) -> None:
    best, *_ = found(owner)
    assert (best.object_id, best.number, best.url) == (SEVEN, 0, "/diaries/7#0")
    assert (best.title, best.passage) == ("Diary", "the cat sat on the mat.")
    assert [hit.passage for hit in found(owner, '"a b c"')] == ["a b c d e f."]
    assert found(owner, project="elsewhere") == []
    assert found(make_user("eve")) == []


def test_new_source_is_found_by_words_without_stored_passages(owner: User) -> None:
    PassageBlock.objects.all().delete()
    query = SearchQuery(text="cat sat", mode="full_text")
    hits = [hit for hit in search(caller=Caller.of(owner), query=query).hits if hit.kind == "diary"]
    assert [hit.passage for hit in hits] == ["the cat sat on the mat."]


def test_changed_source_embeds_only_new_items_and_updates_filters(owner: User) -> None:
    write(owner, SEVEN, "the dog ran.", version=2, archived=True)
    assert index_status(caller=Caller.of(owner)).pending == 1
    assert index_source(archive_id=owner.pk, source_id=diary().pk).items == 1
    assert found(owner) == []
    assert {hit.number for hit in found(owner, archived=True)} == {0, 1, 2, 3}


def test_reembed_covers_new_source_and_leaves_no_orphans(owner: User, diaries: Path) -> None:
    before = ItemEmbedding.objects.filter(source=diary()).count()
    out = StringIO()
    call_command("reembed", "--model", str(diaries), "--workers", "1", stdout=out, stderr=StringIO())
    assert "2 sources, 4 items embedded" in out.getvalue()
    assert ItemEmbedding.objects.filter(source=diary(), space=spaces.active_space()).count() == before == 3
    assert found(owner)
    run = deep_sweep(enqueue=lambda ids: None)
    assert (run.found["orphaned"], run.found["stale"]) == (0, 0)


def test_new_source_is_exported_and_erased(owner: User, tmp_path: Path) -> None:
    report = export_user(user=owner, path=tmp_path / "ada.zip")
    assert report.rows["tests_entry"] == 3
    with zipfile.ZipFile(tmp_path / "ada.zip") as archive:
        lines = archive.read("tables/search_source.jsonl").decode().splitlines()
    assert {json.loads(line)["kind"] for line in lines} == {"conversation", "diary"}
    assert erase_user(user=owner).finished
    with connection.cursor() as cursor:
        for table in ("tests_entry", "search_source", "search_item", "search_passageblock"):
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (0,), table


def test_source_takes_sixty_lines() -> None:
    lines = Path(diary_module.__file__).read_text(encoding="utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 60
