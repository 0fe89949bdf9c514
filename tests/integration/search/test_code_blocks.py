"""The codes that a process holds, whole or short, are those that the database has now, and the owner's alone."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation, Message
from convmemory.embeddings.embedder import unit_rows
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import index_conversation
from search.models import ItemEmbedding, PassageBlock, Source
from search.pipeline import rank_items
from search.query import SCOPES, SearchQuery
from search.ranking.late_interaction import find_passages
from search.results.rows import near_places
from search.retrieval.candidates import NO_ITEMS, FeatureTable, item_keys, split_keys
from search.retrieval.corpus import PendingCorpus
from search.retrieval.dense import embed_query
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.searching import search
from search.vectors import blocks
from search.vectors.blocks import CACHE, ComparedVectors
from search.vectors.codes import LongCodes, ShortCodes, decoded, encode, rotated, short_bytes
from search.vectors.packing import ENTRY, ITEMS_PER_BLOCK, OF_ITEM
from tests.factories import assistant_says, exchange, make_conversation, make_user
from tests.support.passages import stored_passages
from tests.support.run_database import unchecked_keys

pytestmark = pytest.mark.django_db

EGGS = ("How long do I boil an egg? I like it soft.", "Six minutes is right. Cool it under cold water after.")
TRAINS = ("When does the night train to Vienna leave?", "At ten past nine. It has a sleeping car.")
EVERY_SCOPE = frozenset(SCOPES)


@pytest.fixture(autouse=True, params=["long", "short"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "short":
        monkeypatch.setattr(blocks, "SMALL", 0)


def indexed(owner: Any, *pairs: tuple[str, str], **fields: Any) -> Conversation:
    conversation = make_conversation(owner, exchange(*pairs), **fields)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def prepared(owner: Any, filters: Filters = EVERYTHING, text: str = "eggs", scope: Any = EVERY_SCOPE) -> PreparedQuery:
    parsed = SearchQuery(text=text, has_operators=True).parsed
    query = PreparedQuery(owner.pk, parsed, scope=scope, filters=filters, space=active_space())
    return embed_query(query.looked_up())


def compared(query: PreparedQuery) -> ComparedVectors | None:
    digest = PendingCorpus(query.archive_id, query.space).corpus.codes
    current = blocks.current_blocks(query.archive_id, query.active_space, digest)
    return ComparedVectors(current, query.rotated_vector) if current else None


def by_code(owner: Any, *arguments: Any, **values: Any) -> Any:
    """The item and similarity of each passage and each item's vector that is found by codes."""
    query = prepared(owner, *arguments, **values)
    vectors, eligible = compared(query), query.eligibility
    if vectors is None:
        return []
    admitted = None if eligible.admits_all else eligible.admitted(vectors.blocks.items)
    return rounded(*vectors.nearest([*query.passage_kinds, OF_ITEM], 1_000, admitted))


def exactly(owner: Any, *arguments: Any, **values: Any) -> Any:
    """The same of the rows, all of which are read."""
    query = prepared(owner, *arguments, **values)
    codes = [
        (one.block.source_id, one.item_number, one.code)
        for one in stored_passages(archive_id=owner.pk, space=active_space())
        if one.kind in query.passage_kinds
    ]
    items = list(ItemEmbedding.objects.filter(archive_id=owner.pk, space=active_space()))
    if not codes and not items:
        return []
    vectors = unit_rows(np.array([item.embedding for item in items], np.float32).reshape(-1, 384))
    keys = item_keys(*zip(*((source, item) for source, item, _ in codes), strict=True)) if codes else NO_ITEMS
    keys = np.concatenate([keys, item_keys([i.source_id for i in items], [i.item_number for i in items])])
    if blocks.SMALL:
        matrix = np.concatenate([decoded(b"".join(code for *_, code in codes), 384), rotated(vectors)])
        cosines = matrix @ query.rotated_vector
    else:
        every = [*(code for *_, code in codes), *encode(vectors)]
        first = b"".join(code[: short_bytes(384)] for code in every)
        cosines = ShortCodes.read(first, 384).cosines(query.rotated_vector)
    admitted = np.ones(len(keys), np.bool_) if query.eligibility.admits_all else query.eligibility.admitted(keys)
    return rounded(keys[admitted], cosines[admitted])


def rounded(keys: Any, cosines: Any) -> Any:
    return sorted(zip(keys.tolist(), np.round(cosines, 3).tolist(), strict=True))


def test_cached_binary_codes_follow_every_change() -> None:
    owner = make_user()
    first = indexed(owner, EGGS)
    assert by_code(owner) == exactly(owner) != []
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
    assert by_code(owner) == exactly(owner) != []
    first.delete()
    assert by_code(owner) == []


def test_block_holds_its_items_and_is_replaced_whole() -> None:
    owner = make_user()
    conversation = indexed(owner, *[EGGS] * (ITEMS_PER_BLOCK + 1))
    blocks = list(PassageBlock.objects.filter(source__object_id=conversation.pk).order_by("number"))
    assert [block.number for block in blocks] == [0, 1]
    places = [np.frombuffer(block.entries, ENTRY) for block in blocks]
    assert set(places[0]["item"]) == set(range(ITEMS_PER_BLOCK))
    assert set(places[1]["item"]) == {ITEMS_PER_BLOCK}
    entries = np.concatenate(places)
    of_items = entries["kind"] == OF_ITEM
    messages = Message.objects.filter(conversation=conversation)
    assert set(entries["element"][~of_items].tolist()) == set(messages.values_list("pk", flat=True))
    assert sorted(entries["element"][of_items].tolist()) == sorted(ItemEmbedding.objects.values_list("pk", flat=True))
    assert [block.passages for block in blocks] == [int((of_block["kind"] != OF_ITEM).sum()) for of_block in places]
    assert [block.last_item for block in blocks] == [ITEMS_PER_BLOCK - 1, ITEMS_PER_BLOCK]
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("And serve it warm.")]
    )
    index_conversation(conversation_id=conversation.pk)
    after = dict(PassageBlock.objects.filter(source__object_id=conversation.pk).values_list("number", "pk"))
    assert after[0] == blocks[0].pk
    assert after[1] > blocks[1].pk


FILTERED = (
    (Filters(agent="cook"), "eggs"),
    (Filters(project="kitchen"), "eggs"),
    (Filters(archived=True), "eggs"),
    (Filters(archived=None), "eggs"),
    (Filters(turns=(1, 1)), "eggs"),
    (Filters(after=datetime(2020, 1, 1, tzinfo=UTC)), "eggs"),
    (Filters(before=datetime(2020, 1, 1, tzinfo=UTC)), "eggs"),
    (EVERYTHING, 'eggs "night train"'),
    (EVERYTHING, "eggs -vienna"),
)


def test_filters_on_binary_codes_match_exact_scan() -> None:
    owner = make_user()
    cook = indexed(owner, EGGS, TRAINS, agent="cook")
    indexed(owner, TRAINS, EGGS, project="kitchen")
    indexed(owner, EGGS, TRAINS, archived=True)
    for filters, text in FILTERED:
        expected = exactly(owner, filters, text=text)
        assert by_code(owner, filters, text=text) == expected, (filters, text)
        assert (expected == []) == (filters.before is not None)
    one = Filters(conversation_id=cook.pk)
    assert by_code(owner, one) == exactly(owner, one) != []
    others = Filters(except_turns=((cook.pk, 0), (cook.pk + 10_000, 1)))
    assert by_code(owner, others) == exactly(owner, others) != exactly(owner)


def test_kinds_are_kept_apart() -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS)
    counts = {}
    for name in SCOPES:
        scope = frozenset({name})
        assert by_code(owner, scope=scope) == exactly(owner, scope=scope)
        counts[name] = len(by_code(owner, scope=scope))
    assert counts["user"] > counts["thinking"] == ItemEmbedding.objects.count()


def test_forged_block_yields_no_passages_of_other_owners() -> None:
    owner, other = make_user(), make_user()
    indexed(owner, TRAINS)
    indexed(other, EGGS)
    block = PassageBlock.objects.get(archive_id=other.pk)
    assert by_code(owner, text="boil an egg") == exactly(owner, text="boil an egg")
    with unchecked_keys():
        PassageBlock.objects.filter(pk=block.pk).update(archive_id=owner.pk)
    sources = set(Source.objects.filter(archive_id=owner.pk).values_list("pk", flat=True))
    ranked = rank_items(archive_id=owner.pk, query=SearchQuery(text="boil an egg"))
    assert set(split_keys(ranked.table.keys)[0]) == sources
    hits = search(caller=Caller.of(owner), query=SearchQuery(text="boil an egg")).hits
    assert {hit.object_id for hit in hits} <= set(
        Conversation.objects.filter(archive_id=owner.pk).values_list("pk", flat=True)
    )


def compared_late(owner: Any, text: str = "boil an egg") -> list[Any]:
    """Return number, element, kind, coded tokens and whether it asks of each passage that late interaction compares.

    Of the first item only passages that ask are compared.
    """
    query = prepared(owner, text=text)
    of_owner = {(one.block.source_id, one.item_number) for one in stored_passages(archive_id=owner.pk)}
    keys = np.sort(item_keys(*zip(*of_owner, strict=True)))
    state = SearchState(query, FeatureTable(keys), compared=compared(query))
    near = find_passages(state, keys, np.arange(len(keys)) == 0)
    if near is None:
        return []
    elements, asks = near.entries["element"].tolist(), near.entries["asks"].tolist()
    return sorted(zip(near.items.tolist(), elements, asks, near.kinds, near.coded, strict=True))


def test_late_interaction_compares_nearest_passages_and_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, other = make_user(), make_user()
    indexed(owner, EGGS, TRAINS, ("What feeds a hedgehog in winter?", "Cat food and water, never milk."))
    indexed(owner, TRAINS, EGGS)
    indexed(other, EGGS)
    every = compared_late(owner)
    assert {row[0] for row in every} == {0, 1, 2, 3, 4}
    asking = [row for row in every if row[0] == 0]
    assert all(row[2] for row in asking)
    monkeypatch.setattr("search.ranking.late_interaction.PASSAGES_PER_ITEM", 1)
    fewer = compared_late(owner)
    assert [row[0] for row in fewer] == [0, 1, 2, 3, 4]
    assert all(row in every for row in fewer)


def test_late_interaction_compares_nothing_of_others_even_in_forged_block() -> None:
    owner, other = make_user(), make_user()
    indexed(owner, TRAINS, TRAINS)
    indexed(other, EGGS, EGGS)
    theirs = PassageBlock.objects.get(archive_id=other.pk)
    mine = PassageBlock.objects.get(archive_id=owner.pk)
    PassageBlock.objects.filter(pk=mine.pk).update(entries=theirs.entries, codes=theirs.codes)
    compared_with = b"".join(row[-1] for row in compared_late(owner))
    assert not any(one.tokens in compared_with for one in stored_passages(archive_id=other.pk))


def test_owner_without_passages_gets_no_results() -> None:
    assert by_code(make_user()) == []


def test_least_recently_searched_owners_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = [make_user() for _ in range(3)]
    for owner in owners:
        indexed(owner, EGGS)
    for owner in (owners[0], owners[1], owners[0]):
        by_code(owner)
    held = [CACHE.get(owner.pk, active_space().pk) for owner in owners[:2]]
    assert held[0] is not None
    monkeypatch.setattr(CACHE, "max_bytes", held[0].size * 2)
    by_code(owners[0])
    by_code(owners[2])
    assert [CACHE.get(owner.pk, active_space().pk) is not None for owner in owners] == [True, False, True]
    assert by_code(owners[1]) == exactly(owners[1]) != []


def test_codes_of_idle_owners_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = [make_user(), make_user()]
    for owner in owners:
        indexed(owner, EGGS)
    by_code(owners[0])
    monkeypatch.setattr("search.block_cache.EXPIRES_AFTER_S", -1.0)
    by_code(owners[1])
    assert CACHE.get(owners[0].pk, active_space().pk) is None


def test_cache_entry_of_emptied_owner_is_dropped() -> None:
    owner = make_user()
    conversation = indexed(owner, EGGS)
    by_code(owner)
    conversation.delete()
    by_code(owner)
    assert CACHE.get(owner.pk, active_space().pk) is None


def test_items_that_are_gone_leave_no_entries_behind() -> None:
    owner = make_user()
    conversation = indexed(owner, *[EGGS] * (2 * ITEMS_PER_BLOCK + 3))
    Message.objects.filter(conversation=conversation, turn_number__gt=0).delete()
    Conversation.objects.filter(pk=conversation.pk).update(turn_count=1, turns_version=conversation.turns_version + 1)
    index_conversation(conversation_id=conversation.pk)
    (block,) = PassageBlock.objects.filter(source__object_id=conversation.pk)
    entries = np.frombuffer(block.entries, ENTRY)
    assert set(entries["item"].tolist()) == {0}
    left = Message.objects.filter(conversation=conversation).values_list("pk", flat=True)
    assert set(entries["element"][entries["kind"] != OF_ITEM].tolist()) == set(left) != set()


def test_owner_who_grew_is_compared_by_short_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    indexed(owner, EGGS)
    monkeypatch.setattr(blocks, "SMALL", len(stored_passages(archive_id=owner.pk)))
    monkeypatch.setattr(CACHE, "_entries", type(CACHE._entries)())
    kinds = []
    for pairs in ((), (TRAINS, EGGS)):
        if pairs:
            indexed(owner, *pairs)
        by_code(owner)
        held = CACHE.get(owner.pk, active_space().pk)
        assert held is not None
        kinds.append(type(held.codes))
    assert kinds == [LongCodes, ShortCodes]


def test_token_vectors_are_read_once_and_no_longer_than_their_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = make_user()
    first = indexed(owner, EGGS)
    indexed(owner, TRAINS)
    every = compared_late(owner)
    monkeypatch.setattr("search.vectors.blocks.PendingQuery", None)
    assert CACHE.get(owner.pk, active_space().pk) is not None
    monkeypatch.undo()
    assert compared_late(owner) == every
    first.delete()
    compared_late(owner)
    held = CACHE.get(owner.pk, active_space().pk)
    assert held is not None
    left = b"".join(one.tokens for one in stored_passages(archive_id=owner.pk))
    assert held.tokens == ((left,) if blocks.SMALL else None)


def test_places_shown_are_those_of_the_nearest_passages() -> None:
    owner = make_user()
    indexed(owner, EGGS, TRAINS)
    query = prepared(owner, text="boil an egg")
    vectors = compared(query)
    assert vectors is not None
    turns = list(zip(*split_keys(np.unique(vectors.blocks.items)), strict=True))
    shown = near_places(vectors, turns, query.shown_kinds)
    stored = [(one.item_number, one.element_id, one.part_index, one.start, one.end) for one in stored_passages()]
    assert {(turn[1], *place[:4]) for turn, places in shown.items() for place in places} == set(stored)
    for places in shown.values():
        cosines = [place[4] for place in places]
        assert cosines == sorted(cosines, reverse=True)
