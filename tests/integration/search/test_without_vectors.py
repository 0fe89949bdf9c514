"""Items without vectors are ranked by their words, as high as if they had vectors."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.documents.models import Section
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, Source, SourceIndex
from search.pages.groups import band_of
from search.query import SearchQuery
from search.searching import DocumentScope, SearchResults, search
from tests.factories import assistant_says, exchange, make_conversation, user_says
from tests.support.documents import indexed, upload
from tests.support.passages import take_passages

pytestmark = pytest.mark.django_db

CONVERSATIONS = [
    [
        ("How do I prune an apple tree?", "Cut in February. Take out branches that cross, and leave the fruit spurs."),
        ("And a pear?", "A pear grows upright. Shorten the leader by a third so that the crown stays open."),
        ("When do plums get cut?", "Only in dry summer weather. Silver leaf enters through wounds made in winter."),
        ("Should I seal the cuts?", "No, a clean saw matters more. Paint keeps the wood damp underneath."),
    ],
    [
        ("Why does my bread not rise?", "The water was too hot. Yeast dies above fifty degrees."),
        ("How long should it prove?", "Until it has doubled. A poked finger leaves a dent that fills slowly."),
        ("Can I keep the dough overnight?", "Yes, in the refrigerator. A cold night gives the crust its flavour."),
        ("The crust is soft.", "Bake it on a hot stone. Steam in the first minutes makes the crust crackle."),
    ],
    [
        ("The backup failed with error 1603.", "The disk was full. Rotate the archives in /var/backups first."),
        ("How do I rotate them?", "Use logrotate with a weekly schedule. Keep four generations of the archives."),
        ("Does it compress?", "Set the option compress. The newest file is left alone until the next rotation."),
        ("And restoring?", "Copy the dump to a scratch machine first. A restore that was never tried is no backup."),
    ],
    [
        ("Which languages are close to Dutch?", "German and Afrikaans are. Speakers of both read a Dutch newspaper."),
        ("And to Swedish?", "Norwegian and Danish are. On paper they differ mostly in spelling."),
        ("Is Basque related to Spanish?", "No, it is an isolate. It was spoken there before Latin came."),
        ("Which alphabet does Georgian use?", "Its own one, Mkhedruli. It has no capital letters."),
    ],
]  # fmt: skip


@pytest.fixture
def archive(owner: User) -> list[Conversation]:
    conversations = [make_conversation(owner, exchange(*pairs)) for pairs in CONVERSATIONS]
    for conversation in conversations:
        index_conversation(conversation_id=conversation.pk)
    return conversations


def sentences() -> Iterator[tuple[int, int, str]]:
    for number, pairs in enumerate(CONVERSATIONS):
        for turn, (_, answer) in enumerate(pairs):
            yield from ((number, turn, f"{said.rstrip('.')}.") for said in answer.split(". "))


def found(owner: User, text: str) -> SearchResults:
    return search(caller=Caller.of(owner), query=SearchQuery(text=text))


def take_vectors(source: Source, number: int) -> None:
    ItemEmbedding.objects.filter(source=source, item_number=number).delete()
    take_passages(source, active_space(), items=[number])


def test_item_without_vectors_comes_first_for_each_of_its_sentences(owner: User, archive: list[Conversation]) -> None:
    for number, turn, sentence in sentences():
        source = Source.objects.get(object_id=archive[number].pk)
        with transaction.atomic():
            take_vectors(source, turn)
            hits = found(owner, sentence).hits
            transaction.set_rollback(True)
        assert (hits[0].object_id, hits[0].number) == (archive[number].pk, turn), sentence
        assert hits[0].similarity is None
        assert any((hit.similarity or 0) > 0 for hit in hits[1:])
        assert hits[0].relevance == max(hit.relevance or 0 for hit in hits), sentence
        assert band_of(hits[0], hits[0].score) == "related", sentence  # by its words alone it is not sure


DOCUMENTS = {
    "boiler.md": """# Boiler

The boiler stands in the cellar. It burns gas from the street.

## Before winter

Bleed every radiator once. Top up the water until the gauge shows one bar.

## When it is cold

Press the red button for ten seconds. A code on the display names the fault.
""",
    "house.txt": "The roof was tiled in 1974. Moss on it is harmless.\n\nThe drain of the yard blocks with leaves.",
}


def test_section_without_vectors_comes_first_for_each_of_its_sentences(
    owner: User, archive: list[Conversation], documents_here: None
) -> None:
    for name, text in DOCUMENTS.items():
        indexed(upload(owner, text, name))
    sections = list(Section.objects.order_by("pk"))
    said = [(one, f"{text.rstrip('.')}.") for one in sections for text in re.split(r"\.\s+", one.text) if text]
    assert len(said) > 8
    for section, sentence in said:
        text = sentence.rpartition("\n")[2]
        source = Source.objects.get(kind="document", object_id=section.document_id)
        with transaction.atomic():
            take_vectors(source, section.number)
            among_all = found(owner, text).hits
            query = SearchQuery(text=text, document_scope=DocumentScope())
            (first, *_) = search(caller=Caller.of(owner), query=query).hits
            transaction.set_rollback(True)
        home = (section.document_id, section.number)
        assert (among_all[0].kind, among_all[0].object_id, among_all[0].number) == ("document", *home), text
        assert (first.object_id, first.number) == home, text


def test_order_is_same_with_and_without_query_for_missing_vectors(
    owner: User, archive: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [sentence for _, _, sentence in sentences()][::3]
    scores = [[(hit.key, hit.score) for hit in found(owner, text).hits] for text in queries]
    monkeypatch.setattr("search.pipeline.with_imputed", lambda query, table, blocks, behind: table)
    assert [[(hit.key, hit.score) for hit in found(owner, text).hits] for text in queries] == scores


def test_grown_turn_is_found_by_words_that_its_vector_lacks(owner: User, archive: list[Conversation]) -> None:
    more = "Mind the canker on the bark."
    ingest.append_messages(caller=Caller.of(owner), conversation_id=archive[0].pk, drafts=[assistant_says(more)])
    assert SourceIndex.objects.filter(indexed_version=1).count() == 4
    best = found(owner, more).hits[0]
    assert (best.object_id, best.number) == (archive[0].pk, 3)


def test_word_of_unanswered_question_alone_finds_it_first(owner: User, archive: list[Conversation]) -> None:
    drafts = [*exchange(*CONVERSATIONS[1]), user_says("Which bread do the Frisian islands bake?")]
    last = make_conversation(owner, drafts)
    index_conversation(conversation_id=last.pk)
    best = found(owner, "Frisian").hits[0]
    assert (best.object_id, best.number) == (last.pk, 3)
    assert best.passage == "Which bread do the Frisian islands bake?"
    assert (best.similarity or 0) > 0  # of the passage, not of the turn


def test_refused_item_is_found_by_its_words(owner: User, archive: list[Conversation]) -> None:
    source = Source.objects.get(object_id=archive[2].pk)
    take_vectors(source, 1)
    Item.objects.filter(source=source, number=1).update(error="too strange")
    assert found(owner, "four generations of archives with logrotate").hits[0].number == 1


def test_archive_without_any_vector_is_ranked_as_by_full_text(owner: User) -> None:
    for pairs in CONVERSATIONS:
        make_conversation(owner, exchange(*pairs))
    for _, _, sentence in sentences():
        by_words = search(caller=Caller.of(owner), query=SearchQuery(text=sentence, mode="full_text")).hits
        assert [(hit.key, hit.score) for hit in found(owner, sentence).hits] == [
            (hit.key, hit.score) for hit in by_words
        ]
