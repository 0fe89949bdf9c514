"""Large owners: the codes of item vectors that a process holds are those that the database has, the owner's alone."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Message
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import index_conversation
from search.models import ItemEmbedding, SourceIndex
from search.query import SearchQuery
from search.retrieval import dense
from search.retrieval.candidates import Feature
from search.retrieval.corpus import PendingCorpus
from search.retrieval.dense import LIMITS, ItemRetriever, embed_query
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.searching import search
from search.vectors import small_owners
from search.vectors.item_codes import CACHE
from tests.factories import assistant_says, exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db

EGGS = ("How long do I boil an egg? I like it soft.", "Six minutes is right. Cool it under cold water after.")
TRAINS = ("When does the night train to Vienna leave?", "At ten past nine. It has a sleeping car.")
HEDGEHOGS = ("What feeds a hedgehog in winter?", "Cat food and water, never milk.")


@pytest.fixture(autouse=True)
def nobody_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_owners, "SMALL_PASSAGES", -1)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sources of which codes were fetched, a list for each query."""
    asked: list[list[int]] = []

    def noting(statement: str, parameters: dict[str, Any]) -> Any:
        assert statement == load_sql("search", "item_codes")
        asked.append(parameters["sources"])
        return PendingQuery(statement, parameters)

    monkeypatch.setattr("search.vectors.item_codes.PendingQuery", noting)
    return asked


def indexed(owner: Any, *pairs: tuple[str, str], **fields: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **fields)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def found(owner: Any, filters: Filters, text: str, *, exactly_up_to: int) -> dict[int, float]:
    """The cosine of each item that the retriever finds, for owners of more passages than these by codes."""
    parsed = SearchQuery(text=text, has_operators=True).parsed
    query = PreparedQuery(owner.pk, parsed, filters=filters, space=active_space()).looked_up()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "EXACT_ITEMS_UP_TO", exactly_up_to)
        corpus = PendingCorpus(owner.pk, active_space(), filters.kinds)
        state = SearchState(query)
        ItemRetriever().send(embed_query(query), corpus)(state, corpus.corpus)
    ((_, keys, features, _),) = state.found
    return dict(zip(keys.tolist(), np.round(features[Feature.ITEM_COSINE], 4).tolist(), strict=True))


def by_code(owner: Any, filters: Filters = EVERYTHING, text: str = "eggs") -> dict[int, float]:
    return found(owner, filters, text, exactly_up_to=0)


def exactly(owner: Any, filters: Filters = EVERYTHING, text: str = "eggs") -> dict[int, float]:
    return found(owner, filters, text, exactly_up_to=1_000)


def test_cached_item_codes_follow_every_change() -> None:
    owner = make_user()
    first = indexed(owner, EGGS)
    assert by_code(owner) == exactly(owner) != {}
    second = indexed(owner, TRAINS, EGGS)
    assert by_code(owner) == exactly(owner)
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[assistant_says("Salt keeps it from running.")]
    )
    index_conversation(conversation_id=first.pk)
    assert by_code(owner) == exactly(owner)
    Message.objects.filter(conversation=second, turn_number=1).delete()
    Conversation.objects.filter(pk=second.pk).update(turn_count=1, turns_version=second.turns_version + 1)
    index_conversation(conversation_id=second.pk)
    assert by_code(owner) == exactly(owner)
    second.delete()
    assert by_code(owner) == exactly(owner) != {}
    first.delete()
    assert by_code(owner) == {}


def test_only_changed_sources_are_fetched(fetched: list[list[int]]) -> None:
    owner = make_user()
    first, second = indexed(owner, EGGS), indexed(owner, TRAINS)
    ids = {source_of(conversation) for conversation in (first, second)}
    by_code(owner)
    by_code(owner, text="trains")
    assert [set(sources) for sources in fetched] == [ids]
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=second.pk, drafts=[assistant_says("Take the day train.")]
    )
    index_conversation(conversation_id=second.pk)
    by_code(owner)
    assert fetched[1:] == [[source_of(second)]]
    first.delete()
    by_code(owner)
    assert len(fetched) == 2
    held = CACHE.get(owner.pk, active_space().pk)
    assert held is not None
    assert held.sources.tolist() == [source_of(second)]
    assert set((held.items >> 24).tolist()) == {source_of(second)}


def source_of(conversation: Conversation) -> int:
    return ItemEmbedding.objects.filter(source__object_id=conversation.pk).values_list("source_id", flat=True)[0]


def test_newest_vector_is_noted_per_source() -> None:
    owner = make_user()
    conversation = indexed(owner, EGGS, TRAINS)
    (state,) = SourceIndex.objects.filter(archive_id=owner.pk)
    stored = ItemEmbedding.objects.filter(archive_id=owner.pk).order_by("pk").values_list("pk", flat=True)
    assert state.newest_vector == list(stored)[-1]
    ItemEmbedding.objects.filter(archive_id=owner.pk, item_number=0).update(content_hash=b"other")
    SourceIndex.objects.filter(archive_id=owner.pk).update(indexed_version=0, dirty_from=None)
    index_conversation(conversation_id=conversation.pk)
    (state,) = SourceIndex.objects.filter(archive_id=owner.pk)
    assert state.newest_vector == ItemEmbedding.objects.get(archive_id=owner.pk, item_number=0).pk


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        (Filters(agent="cook"), "eggs"),
        (Filters(archived=True), "eggs"),
        (Filters(archived=None), "eggs"),
        (Filters(turns=(1, 1)), "eggs"),
        (Filters(after=datetime(2020, 1, 1, tzinfo=UTC)), "eggs"),
        (EVERYTHING, 'eggs "night train"'),
        (EVERYTHING, "eggs -vienna"),
        (Filters(kinds=frozenset({"conversation"})), "eggs"),
        (Filters(kinds=frozenset({"document"})), "eggs"),
    ],
)
def test_filters_on_item_codes_match_exact_scan(filters: Filters, text: str) -> None:
    owner = make_user()
    cook = indexed(owner, EGGS, TRAINS, agent="cook")
    indexed(owner, TRAINS, EGGS)
    indexed(owner, EGGS, TRAINS, archived=True)
    expected = exactly(owner, filters, text)
    assert by_code(owner, filters, text) == expected
    assert (expected == {}) == ("document" in filters.kinds)
    assert by_code(owner) == exactly(owner) != {}
    one = Filters(conversation_id=cook.pk)
    assert by_code(owner, one) == exactly(owner, one) != {}


def test_forged_cache_yields_no_items_of_other_owners() -> None:
    owner, other = make_user(), make_user()
    indexed(owner, TRAINS)
    indexed(other, EGGS)
    space = active_space()
    expected = exactly(owner)
    assert by_code(owner) == expected
    assert not by_code(other).keys() & expected.keys()
    mine, theirs = CACHE.get(owner.pk, space.pk), CACHE.get(other.pk, space.pk)
    assert mine is not None
    assert theirs is not None
    forged = replace(mine, ids=theirs.ids, items=theirs.items, words=theirs.words)
    CACHE.put(owner.pk, space.pk, forged)
    assert by_code(owner) == {}
    titles = {hit.object_id for hit in search(caller=Caller.of(owner), query=SearchQuery(text="boil an egg")).hits}
    assert titles <= set(Conversation.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))


def test_items_past_rescore_limit_get_estimated_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS, HEDGEHOGS)
    exact = exactly(owner)
    monkeypatch.setitem(LIMITS, "items_named", 2)
    estimated = by_code(owner)
    assert estimated.keys() == exact.keys()
    assert max(exact, key=exact.__getitem__) == max(estimated, key=estimated.__getitem__)
    assert sum(estimated[key] == exact[key] for key in exact) == 2
    monkeypatch.setattr("search.retrieval.dense.SCANNED", 2)
    assert len(by_code(owner)) == 2


def test_owner_without_items_gets_no_results() -> None:
    assert by_code(make_user()) == {}
