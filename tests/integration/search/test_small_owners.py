"""Small owners: the vectors that a process holds are those that the database has now, and the owner's alone."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Message
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import index_conversation
from search.models import BinaryCodeBlock, ItemEmbedding
from search.pipeline import send_vectors_query
from search.query import SCOPES, SearchQuery
from search.ranking.late_interaction import find_passages
from search.results.passages import PASSAGES_PER_HIT, compared_places, near_places
from search.retrieval.candidates import FeatureTable, ItemKeys
from search.retrieval.corpus import PendingCorpus
from search.retrieval.dense import ItemRetriever, PassageRetriever, embed_query
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.searching import search
from search.vectors import small_owners
from search.vectors.small_owners import CACHE
from tests.factories import assistant_says, exchange, make_conversation, make_user
from tests.support.run_database import unchecked_keys

pytestmark = pytest.mark.django_db

EGGS = ("How long do I boil an egg? I like it soft.", "Six minutes is right. Cool it under cold water after.")
TRAINS = ("When does the night train to Vienna leave?", "At ten past nine. It has a sleeping car.")
TEXT = "How long do I boil an egg?"
EVERY_SCOPE = frozenset(SCOPES)


def indexed(owner: User, *pairs: tuple[str, str], **fields: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **fields)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def prepared(owner: User, filters: Filters = EVERYTHING, text: str = TEXT, scope: Any = EVERY_SCOPE) -> PreparedQuery:
    parsed = SearchQuery(text=text, has_operators=True).parsed
    query = PreparedQuery(owner.pk, parsed, scope=scope, filters=filters, space=active_space())
    return embed_query(query.looked_up())


def found(query: PreparedQuery) -> SearchState:
    """Return the state with what the retrievers find by passages and by item vectors."""
    corpus = PendingCorpus(query.archive_id, query.space, query.filters.kinds)
    state = SearchState(query)
    for retriever in (PassageRetriever(), ItemRetriever()):
        retriever.send(query, corpus)(state, corpus.corpus)
    return state


def features(state: SearchState) -> dict[tuple[str, int], float]:
    return {
        (name, key): score
        for _, keys, columns, _ in state.found
        for name, scores in columns.items()
        for key, score in zip(keys.tolist(), scores.tolist(), strict=True)
    }


def assert_as_of_large_owner(owner: User, *arguments: Any, **given: Any) -> set[int]:
    """Compare what the cached vectors find with what is found for larger owners; return the items."""
    query = prepared(owner, *arguments, **given)
    here, large = found(query), found(replace(query, small_owner=None))
    assert here.compared is not None
    assert large.compared is None
    assert features(here) == pytest.approx(features(large), abs=0.1)  # by half of the codes

    return {item for _, keys, _, _ in here.found for item in keys.tolist()}


def test_held_vectors_follow_every_change() -> None:
    owner = make_user()
    first = indexed(owner, EGGS)
    assert len(assert_as_of_large_owner(owner)) == 1
    second = indexed(owner, TRAINS, EGGS)
    assert len(assert_as_of_large_owner(owner)) == 3
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=first.pk, drafts=[assistant_says("Salt keeps it whole.")]
    )
    index_conversation(conversation_id=first.pk)
    assert_as_of_large_owner(owner)
    Message.objects.filter(conversation=second, turn_number=1).delete()
    Conversation.objects.filter(pk=second.pk).update(turn_count=1, turns_version=second.turns_version + 1)
    index_conversation(conversation_id=second.pk)
    assert len(assert_as_of_large_owner(owner)) == 2
    ItemEmbedding.objects.filter(archive_id=owner.pk).delete()
    assert_as_of_large_owner(owner)
    second.delete()
    assert len(assert_as_of_large_owner(owner)) == 1
    first.delete()
    assert assert_as_of_large_owner(owner) == set()


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        (Filters(project="kitchen"), "eggs"),
        (Filters(archived=None), "eggs"),
        (Filters(turns=(1, 1)), "eggs"),
        (Filters(kinds=frozenset({"document"})), "eggs"),
        (Filters(before=datetime(2020, 1, 1, tzinfo=UTC)), "eggs"),
        (EVERYTHING, 'eggs "night train"'),
        (EVERYTHING, "eggs -vienna"),
    ],
)
def test_filters_on_held_vectors_match_exact_scan(filters: Filters, text: str) -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS, agent="cook")
    indexed(owner, TRAINS, EGGS, project="kitchen")
    indexed(owner, EGGS, TRAINS, archived=True)
    items = assert_as_of_large_owner(owner, filters, text=text)
    assert (items == set()) == (filters.before is not None or bool(filters.kinds))
    for name in SCOPES:
        assert_as_of_large_owner(owner, filters, text=text, scope=frozenset({name}))


def near_passages(state: SearchState, keys: ItemKeys) -> list[Any]:
    """Return number, element, kind, coded tokens and whether it asks of each passage for late interaction.

    Of the first item only passages that ask are compared.
    """
    near = find_passages(state, keys, np.arange(len(keys)) == 0)
    assert near is not None
    starts = np.cumsum(near.sizes) - near.sizes
    coded = [near.coded[start : start + size] for start, size in zip(starts, near.sizes, strict=True)]
    return sorted(zip(near.items, near.elements, near.asks, near.kinds, coded, strict=True))


def test_later_stages_get_the_same_from_held_vectors() -> None:
    owner, other = make_user(), make_user()
    indexed(owner, EGGS, TRAINS)
    indexed(owner, TRAINS, EGGS)
    indexed(other, EGGS)
    query = prepared(owner)
    state = found(query)
    (keys, *_), compared = state.found[0], state.compared
    assert compared is not None
    table, large = FeatureTable(keys), found(replace(query, small_owner=None))
    assert large.scanned is not None
    held = near_passages(SearchState(query, table, compared=compared), keys)
    assert held == near_passages(SearchState(query, table, scanned=large.scanned), keys)
    assert {row[0] for row in held} == {1, 2, 3, 4}
    assert all(row[2] for row in held if row[0] == 1)
    shown = near_places(query, large.scanned.nearest_of_items(keys, query.shown_kinds, PASSAGES_PER_HIT))
    here = compared_places(query, keys, compared)
    assert here.keys() == shown.keys()
    for turn, places in here.items():
        cosines, by_halves = ({place[:4]: place[4] for place in each} for each in (places, shown[turn]))
        assert cosines == pytest.approx(by_halves, abs=0.1)
        assert list(cosines.values()) == sorted(cosines.values(), reverse=True)
    vectors = [send_vectors_query(query, keys, one)() for one in (compared, None)]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert vectors[0].any(axis=1).all()


def test_forged_block_brings_no_vectors_of_others() -> None:
    owner, other = make_user(), make_user()
    indexed(owner, TRAINS)
    indexed(other, EGGS)
    with unchecked_keys():
        BinaryCodeBlock.objects.filter(archive_id=other.pk).update(archive_id=owner.pk)
    hits = search(caller=Caller.of(owner), query=SearchQuery(text=TEXT)).hits
    held = CACHE.get(owner.pk, active_space().pk)
    assert held is not None
    assert set(held.items.tolist()) == set(held.items_of_vectors.tolist())
    assert {hit.object_id for hit in hits} == set(
        Conversation.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)
    )


def test_vectors_of_owner_who_grew_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    indexed(owner, EGGS)
    before = [hit.number for hit in search(caller=Caller.of(owner), query=SearchQuery(text=TEXT)).hits]
    assert CACHE.get(owner.pk, active_space().pk) is not None
    held = CACHE.get(owner.pk, active_space().pk)
    assert held is not None
    monkeypatch.setattr(small_owners, "SMALL_PASSAGES", len(held.entries) - 1)
    assert prepared(owner).small_owner is not None
    assert [hit.number for hit in search(caller=Caller.of(owner), query=SearchQuery(text=TEXT)).hits] == before
    assert found(prepared(owner)).compared is None
    assert CACHE.get(owner.pk, active_space().pk) is None


def test_recently_searched_owner_is_not_evicted_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = [make_user(), make_user()]
    for owner in owners:
        indexed(owner, EGGS)
    monkeypatch.setattr(CACHE, "max_bytes", 1)
    monkeypatch.setattr("search.block_cache.RECENT_S", 0.0)
    assert found(prepared(owners[0])).compared is not None
    monkeypatch.setattr("search.block_cache.RECENT_S", 600.0)
    state = found(prepared(owners[1]))
    assert state.compared is None
    assert len(state.found[0][0]) == 1
    assert found(prepared(owners[0])).compared is not None
    monkeypatch.setattr("search.block_cache.RECENT_S", 0.0)
    assert found(prepared(owners[1])).compared is not None
    assert CACHE.get(owners[0].pk, active_space().pk) is None
