"""The postings that a process holds are those that the database has now, and the owner's alone.

They count what full text search counts.
"""

import random
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart
from convmemory.conversations.models import Conversation, Message
from search.adapters.conversations import index_conversation
from search.indexing.packing import find_lost_postings, pack_again, pack_source
from search.indexing.sweeping import sources_to_index
from search.models import PassageBlock, PostingBlock, Source
from search.postings import cached
from search.postings.cached import CACHE, ITEM, ITEMS_PER_BLOCK, current_postings
from search.query import SCOPES, SearchQuery
from search.retrieval.candidates import split_keys
from search.retrieval.corpus import PendingCorpus
from search.retrieval.lexical import LexicalRetriever
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.searching import search
from search.tasks import index
from tests.factories import assistant_says, exchange, make_conversation, make_user
from tests.support.queue import drop_all

pytestmark = pytest.mark.django_db

EGGS = ("How long do I boil an egg? I like it soft.", "Six minutes is right. Cool it under cold water after.")
TRAINS = ("When does the night train to Vienna leave?", "At ten past nine. It has a sleeping car.")
SPOKEN = PostingBlock.Home.SPOKEN


def indexed(owner: Any, *pairs: tuple[str, str], **fields: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **fields)
    index_conversation(conversation_id=conversation.pk)
    drop_all()
    return conversation


def found(owner: Any, text: str, *, scope: Any = frozenset(SCOPES), filters: Filters = EVERYTHING) -> SearchState:
    """Return the state after the lexical retriever has added what it finds."""
    query = SearchQuery(text=text, mode="full_text", scope=scope, filters=filters, has_operators=True)
    state = SearchState(PreparedQuery.of(owner.pk, query).looked_up())
    LexicalRetriever().add_candidates(state, PendingCorpus(owner.pk, None).corpus)
    return state


def items(state: SearchState) -> list[tuple[int, int]]:
    return list(zip(*split_keys(state.added[0][0]), strict=True))


def without_postings(owner: Any) -> None:
    """The owner's sources as they are before a worker packs them."""
    pack_again(list(Source.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)))


def assert_same(first: SearchState, second: SearchState) -> None:
    (found, _, features, _), (other_found, _, other_features, _) = first.added[0], second.added[0]
    assert found.tolist() == other_found.tolist()
    assert first.word_weights == second.word_weights
    assert features.keys() == other_features.keys()
    for name, scores in features.items():
        assert_allclose(scores, other_features[name], atol=1e-4, err_msg=name)


def test_scores_are_those_that_texts_themselves_give() -> None:
    """Against counts from the lexical documents, for random texts and questions of 1 to 50 words, in 3 scopes."""
    chance = random.Random(7)
    words = [
        start + end for start in ("bo", "ka", "li", "mu", "tre") for end in ("lin", "rat", "vex", "dom", "pi", "su")
    ]

    def text(most: int) -> str:
        return " ".join(chance.choices(words, range(1, 31), k=chance.randint(1, most)))

    owner = make_user()
    for turns in (1, 3, ITEMS_PER_BLOCK + 2):
        indexed(owner, *[(text(30), text(120)) for _ in range(turns)])
    scopes = [frozenset(scope) for scope in (("user", "assistant"), ("user",), SCOPES)]
    asked = [(text(50), scope) for _ in range(12) for scope in scopes]
    packed = [found(owner, question, scope=scope) for question, scope in asked]
    without_postings(owner)
    for (question, scope), expected in zip(asked, packed, strict=True):
        assert_same(found(owner, question, scope=scope), expected)


def test_every_change_is_seen_by_process_that_holds_postings() -> None:
    owner = make_user()
    first = indexed(owner, EGGS)
    assert len(items(found(owner, "eggs"))) == 1
    second = indexed(owner, TRAINS, EGGS)
    assert len(items(found(owner, "eggs"))) == 2
    assert items(found(owner, "salt")) == []
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[assistant_says("Salt keeps it whole.")]
    )
    index_conversation(conversation_id=first.pk)
    assert len(items(found(owner, "salt"))) == 1
    second.delete()
    assert items(found(owner, "vienna")) == []
    assert len(items(found(owner, "eggs"))) == 1
    first.delete()
    assert items(found(owner, "eggs")) == []
    assert CACHE.get(owner.pk, SPOKEN) is None


def test_few_segments_are_held_however_often_something_changes() -> None:
    owner = make_user()
    indexed(owner, *[TRAINS] * ITEMS_PER_BLOCK)
    for number in range(12):
        indexed(owner, (f"What is the word number{number}?", "It is a word."))
        assert len(items(found(owner, f"number{number}"))) == 1
    held = CACHE.get(owner.pk, SPOKEN)
    assert held is not None
    assert len(held.segments) <= 4
    assert len(held.keys) == ITEMS_PER_BLOCK + 12


def test_block_holds_its_items_and_is_replaced_whole() -> None:
    owner = make_user()
    conversation = indexed(owner, *[EGGS] * (ITEMS_PER_BLOCK + 1))
    blocks = list(PostingBlock.objects.filter(archive_id=owner.pk, home=SPOKEN).order_by("number"))
    numbers = [np.frombuffer(block.items, ITEM)["number"].tolist() for block in blocks]
    assert numbers == [list(range(ITEMS_PER_BLOCK)), [ITEMS_PER_BLOCK]]
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("And serve it warm.")]
    )
    index_conversation(conversation_id=conversation.pk)
    after = dict(PostingBlock.objects.filter(archive_id=owner.pk, home=SPOKEN).values_list("number", "pk"))
    assert after[0] == blocks[0].pk
    assert after[1] > blocks[1].pk


def test_items_that_are_gone_leave_no_postings_behind() -> None:
    owner = make_user()
    conversation = indexed(owner, *[EGGS] * (2 * ITEMS_PER_BLOCK + 3))
    Message.objects.filter(conversation=conversation, turn_number__gt=0).delete()
    Conversation.objects.filter(pk=conversation.pk).update(turn_count=1, turns_version=conversation.turns_version + 1)
    index_conversation(conversation_id=conversation.pk)
    assert [turn for _, turn in items(found(owner, "eggs"))] == [0]
    assert find_lost_postings() == []


@pytest.mark.parametrize(
    ("filters", "text", "count"),
    [
        (Filters(agent="cook"), "eggs", 1),
        (Filters(project="kitchen"), "eggs", 1),
        (Filters(archived=True), "eggs", 1),
        (Filters(archived=None), "eggs", 3),
        (Filters(turns=(1, 1)), "eggs", 1),
        (EVERYTHING, "eggs", 2),
        (EVERYTHING, 'eggs "night train"', 2),
        (EVERYTHING, "eggs vienna -vienna", 2),
    ],
)
def test_filtered_results_are_same_with_and_without_postings(filters: Filters, text: str, count: int) -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS, agent="cook")
    indexed(owner, TRAINS, EGGS, project="kitchen")
    indexed(owner, EGGS, TRAINS, archived=True)
    packed = found(owner, text, filters=filters)
    assert len(items(packed)) == count
    without_postings(owner)
    assert_same(found(owner, text, filters=filters), packed)


def test_words_of_other_owners_are_not_found() -> None:
    owner, other = make_user(), make_user()
    indexed(other, EGGS)
    assert items(found(owner, "eggs")) == []
    assert current_postings(owner.pk, SPOKEN, (1, 1)) is None
    indexed(owner, TRAINS)
    assert items(found(owner, "eggs")) == []
    assert len(items(found(other, "eggs"))) == 1


def test_search_without_postings_is_right_until_sweep_packs_them() -> None:
    owner = make_user()
    old = indexed(owner, EGGS)
    indexed(owner, TRAINS)
    expected = found(owner, "egg train")
    pack_again(list(Source.objects.filter(archive_id=owner.pk, object_id=old.pk).values_list("pk", flat=True)))
    assert_same(found(owner, "egg train"), expected)
    (source_id,) = sources_to_index(limit=10)
    assert Source.objects.get(pk=source_id).object_id == old.pk
    index_conversation(conversation_id=old.pk)
    assert sources_to_index(limit=10) == []
    assert_same(found(owner, "egg train"), expected)


def test_message_stored_a_moment_ago_is_found_by_words_of_its_language_and_of_its_system_prompt() -> None:
    owner = make_user()
    stored = make_conversation(
        owner,
        [
            MessageDraft(role="system", parts=(TextPart(text="Answer like a lighthouse keeper."),)),
            *exchange(("Wann läuft der Mietvertrag ab und was ist mit der Kaution?", "Der Vertrag endet im Mai.")),
        ],
    )
    texts = ("Verträge", "Kaution", "lighthouse", "Mietvertrag lighthouse")
    unpacked = [found(owner, text) for text in texts]
    pack_source(Source.objects.get(object_id=stored.pk))
    for text, before in zip(texts, unpacked, strict=True):
        assert len(items(before)) == 1, text
        assert_same(before, found(owner, text))


def test_answer_appended_to_packed_conversation_is_found_before_it_is_packed() -> None:
    owner = make_user()
    conversation = indexed(owner, *[EGGS] * (ITEMS_PER_BLOCK + 1))
    assert PostingBlock.objects.filter(archive_id=owner.pk, home=SPOKEN).count() == 2
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("Salt keeps it whole.")]
    )
    assert PostingBlock.objects.filter(archive_id=owner.pk, home=SPOKEN).count() == 1
    assert items(found(owner, "salt")) == [(Source.objects.get(archive_id=owner.pk).pk, ITEMS_PER_BLOCK)]
    assert len(items(found(owner, "eggs"))) == ITEMS_PER_BLOCK + 1


def test_item_packed_between_two_statements_of_search_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(EGGS))
    expected = found(owner, "eggs")
    look = cached._unpacked

    def look_and_pack(archive_id: int, home: int, lexemes: Any) -> Any:
        seen = look(archive_id, home, lexemes)
        pack_source(Source.objects.get(object_id=conversation.pk))
        return seen

    monkeypatch.setattr(cached, "_unpacked", look_and_pack)
    assert_same(found(owner, "eggs"), expected)


def test_postings_of_all_conversations_are_packed_before_first_of_them_is_embedded() -> None:
    owner = make_user()
    first, last = make_conversation(owner, exchange(EGGS)), make_conversation(owner, exchange(TRAINS))
    index(Source.objects.get(object_id=first.pk).pk, archive_id=owner.pk)
    assert not Source.objects.filter(archive_id=owner.pk, unpacked_from__isnull=False).exists()
    assert not PassageBlock.objects.filter(source__object_id=last.pk).exists()


def test_sources_waiting_for_repacking_are_counted_once() -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS)
    expected = found(owner, "egg train water")
    pack_again(list(Source.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)))
    assert_same(found(owner, "egg train water"), expected)


@pytest.mark.parametrize("damage", ["gone", "another's", "half"])
def test_lost_postings_are_found_and_packed_again(damage: str) -> None:
    owner = make_user()
    conversation = indexed(owner, EGGS)
    assert find_lost_postings() == []
    blocks = PostingBlock.objects.filter(archive_id=owner.pk)
    if damage == "gone":
        blocks.delete()
    elif damage == "half":
        blocks.filter(home=SPOKEN).delete()
    else:
        blocks.update(archive_id=make_user().pk)
    lost = find_lost_postings()
    assert len(lost) == 1
    assert pack_again(lost) == 1
    assert sources_to_index(limit=10) == lost
    index_conversation(conversation_id=conversation.pk)
    assert find_lost_postings() == []
    hits = search(caller=Caller.of(owner), query=SearchQuery(text="eggs", mode="full_text")).hits
    assert [hit.object_id for hit in hits] == [conversation.pk]
