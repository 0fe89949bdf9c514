"""Each sentence about a state of indexing or of the queue is shown in that state, and in no other."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from html import unescape
from pathlib import Path
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.imports import why_waiting
from convmemory.conversations.importing.models import Import
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.config import config
from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.retention import trash
from search.adapters.conversations import index_conversation
from search.indexing import active
from search.indexing.batches import ITEMS_PER_BATCH
from search.indexing.status import index_status, indexing_pace
from search.models import Item, ItemEmbedding, Source, SourceIndex
from search.query import SearchQuery
from search.searching import search
from tests.factories import exchange, make_conversation
from tests.support.api import signed_in
from tests.support.documents import GUIDE, indexed, read, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]

PAIRS = [("how deep is the fjord?", "As deep as it is long, at Gudvangen."), ("and cold?", "Four degrees.")]
WAITS, FOUND = "wait to be indexed by meaning", "search by words finds them already."
WITHOUT_WORDS, FAILED = "wait for their words, too.", "could not be indexed by meaning; search by words finds"
READING = "document is being read; searches find its text afterwards."
ALL_TURNS, ALL_SECTIONS, BAR = "turns are indexed.", "1 section is indexed.", "Indexing: "


def page(owner: User, path: str) -> str:
    client = signed_in(owner)
    return " ".join(unescape(client.get(path).content.decode()).split())


def told(owner: User) -> set[str]:
    """The sentences on the home page and in the progress bar."""
    text = page(owner, "/") + page(owner, "/index/progress")
    return {
        said for said in (WAITS, FOUND, WITHOUT_WORDS, FAILED, READING, ALL_TURNS, ALL_SECTIONS, BAR) if said in text
    }


def is_found_by_words(owner: User) -> bool:
    return bool(search(caller=Caller.of(owner), query=SearchQuery(text="Gudvangen", mode="full_text")).hits)


def waiting(owner: User) -> Conversation:
    return make_conversation(owner, exchange(*PAIRS))


def done(owner: User) -> Conversation:
    made = waiting(owner)
    index_conversation(conversation_id=made.pk)
    return made


def stored_before_words_were(owner: User) -> None:
    waiting(owner)
    Item.objects.all().delete()
    Source.objects.update(words_missing_from=0)  # as the migration has it


def put_back(owner: User) -> None:
    made = done(owner)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=made.pk)
    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=made.pk)


def put_back_without_embedder(owner: User) -> None:
    """More turns than a batch has: the words of all are stored before the first vector is computed."""
    made = make_conversation(owner, exchange(*PAIRS, *[("and?", "Nothing.")] * ITEMS_PER_BATCH, *PAIRS))
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=made.pk)
    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=made.pk)
    with patch.object(active, "embed_missing", side_effect=EmbedderUnavailable("no model")), suppress(EmbeddingError):
        index_conversation(conversation_id=made.pk)


def document_being_read(owner: User) -> None:
    done(owner)
    upload(owner, GUIDE)


def refused(owner: User) -> None:
    done(owner)
    ItemEmbedding.objects.filter(item_number=1).delete()
    Item.objects.filter(number=1).update(error="too strange")


def given_up(owner: User) -> None:
    done(owner)
    SourceIndex.objects.update(error="no model", attempts=99)
    Source.objects.update(version=9)


def with_document(owner: User) -> None:
    done(owner)
    indexed(upload(owner, GUIDE))


STATES: list[tuple[Callable[[User], object], set[str], bool]] = [
    (waiting, {WAITS, FOUND, BAR}, True),
    (stored_before_words_were, {WAITS, WITHOUT_WORDS, BAR}, False),
    (put_back, {WAITS, WITHOUT_WORDS, BAR}, False),
    (put_back_without_embedder, {WAITS, FOUND, BAR}, True),
    (document_being_read, {ALL_TURNS, READING}, True),
    (refused, {FAILED}, True),
    (given_up, {FAILED}, True),
    (done, {ALL_TURNS}, True),
    (with_document, {ALL_TURNS, ALL_SECTIONS}, True),
]


@pytest.mark.parametrize(("arrange", "sentences", "by_words"), STATES)
def test_sentences_on_index_are_so(
    owner: User, arrange: Callable[[User], object], sentences: set[str], by_words: bool
) -> None:
    arrange(owner)
    assert told(owner) == sentences
    assert is_found_by_words(owner) is by_words


def test_progress_counts_turns_and_sections_and_names_pace_and_time(owner: User) -> None:
    made = done(owner)
    waiting(owner)
    read(upload(owner, GUIDE))
    sections = Source.objects.get(kind="document").item_count
    status = index_status(caller=Caller.of(owner))
    assert (status.turns, status.embedded_turns, status.messages) == (4, 2, 8)
    assert (status.sections, status.embedded_sections, status.pending) == (sections, 0, 2 + sections)
    text = page(owner, "/index/progress")
    assert f"Indexing: 2 of 4 turns, 0 of {sections} sections" in text
    assert "a minute" not in text  # nothing is known of the pace yet
    ItemEmbedding.objects.filter(source__object_id=made.pk).update(created_at=timezone.now() - timedelta(seconds=30))
    assert indexing_pace(caller=Caller.of(owner), pending=9).per_minute == 4
    assert "4 a minute, about 1 minute left" in page(owner, "/index/progress")


def test_waiting_import_names_what_it_waits_for(owner: User) -> None:
    first, second = (Import.objects.create(archive_id=owner.pk, name=f"{name}.zip", size=1) for name in "ab")
    assert why_waiting([first])[first.pk].startswith("It waits for its turn.")
    Import.objects.filter(pk=first.pk).update(state=Import.State.RUNNING)
    assert why_waiting([second]) == {second.pk: "It waits until your import of a.zip has ended."}
    assert why_waiting([Import.objects.get(pk=first.pk)]) == {}


def test_document_waits_for_worker_until_it_is_read(owner: User) -> None:
    document = upload(owner, GUIDE)
    said = "It waits until it is read: your documents are read one after another."
    assert said in page(owner, f"/documents/{document.pk}/card")
    read(document)
    assert said not in page(owner, f"/documents/{document.pk}/card")


# A sentence about a state that is found nowhere in this list needs a test that ties it to the state.
TESTED = {
    "templates/home/home.html": 2,
    "templates/conversations/import_card.html": 1,  # "By words at once": test_indexing.py
    "templates/documents/card.html": 1,
    "templates/documents/row.html": 1,
    "convmemory/conversations/importing/imports.py": 2,
    "search/indexing/status.py": 11,  # tests/unit/search/test_status_sentences.py
    "search/searching.py": 1,  # test_documents_api.py
}
_STATE = re.compile(
    r"waits? for (?:a worker|its|their)|waits until|wait to be indexed|(?:not be|is|are) indexed by meaning|"
    r"no document is indexed|being read; searches|are indexed\.|[Bb]y words at once"
)


def test_every_sentence_about_state_is_tested() -> None:
    found = {}
    for folder in ("templates", "search", "convmemory/conversations", "convmemory/documents", "convmemory/tools"):
        for path in sorted((Path(config.base_dir) / folder).rglob("*")):
            if path.suffix in (".html", ".py") and "migrations" not in path.parts:
                lines = path.read_text(encoding="utf-8").splitlines()
                said = [line for line in lines if path.suffix == ".html" or re.search(r'^[^#]*f?"[A-Z%]', line)]
                if count := sum(len(_STATE.findall(line)) for line in said if '"""' not in line):
                    found[str(path.relative_to(config.base_dir))] = count
    assert found == TESTED
