"""Blocks of passages: what is packed is read again, and nothing of an older block stays."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.errors import EmbedderUnavailable
from convmemory.documents import library
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from convmemory.retention import trash
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.indexing import active
from search.indexing.active import index_source
from search.indexing.batches import read_items
from search.indexing.sweeping import find_damage, mark_damage
from search.models import PassageBlock, Source
from search.searching import SearchQuery, search
from search.vectors import blocks, equal_texts
from search.vectors.blocks import PendingTokens
from search.vectors.codes import code_bytes, encode
from search.vectors.equal_texts import equal_passages
from search.vectors.packing import (
    ITEMS_PER_BLOCK,
    OF_ITEM,
    Passages,
    StoredPassage,
    current_blocks_of,
    entries_of_items,
    read_passages,
    repack,
)
from search.vectors.passages import store_element_passages
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.documents import GUIDE, upload
from tests.support.documents import indexed as indexed_document
from tests.support.passages import stored_passages

pytestmark = pytest.mark.django_db

TURNS = [(f"How long does dish {number} take?", f"Dish {number} takes {number + 2} minutes.") for number in range(10)]


@pytest.fixture
def owner() -> User:
    return make_user()


def indexed(owner: User, turns: Any = TURNS) -> tuple[Conversation, Source]:
    conversation = make_conversation(owner, exchange(*turns))
    index_conversation(conversation_id=conversation.pk)
    return conversation, Source.objects.get(object_id=conversation.pk)


def a_space(*, dimensions: int, token_dimensions: int) -> EmbeddingSpace:
    return EmbeddingSpace.objects.create(
        provider="openai", model="some", dimensions=dimensions, token_dimensions=token_dimensions, recipe_version=1
    )


@pytest.mark.parametrize(("dimensions", "token_dimensions"), [(384, 384), (12, 0), (64, 32)])
def test_packed_passages_are_read_again(owner: User, dimensions: int, token_dimensions: int) -> None:
    _, source = indexed(owner)
    space = a_space(dimensions=dimensions, token_dimensions=token_dimensions)
    generator = np.random.default_rng(1)
    codes = encode(generator.standard_normal((30, dimensions)).astype(np.float32))
    stored = [
        StoredPassage(
            2**40 + number, number // 3, number, number + 70_000, number % 7, number % 8, number % 2 == 0, number,
            uuid4(),
            codes[number], generator.bytes(number % 4 * token_dimensions // 8),
        )
        for number in range(30)
    ]  # fmt: skip
    numbers = {one.item_number // ITEMS_PER_BLOCK for one in stored}
    repack(source, space, Passages.of(stored, space), numbers)
    assert list(read_passages(current_blocks_of(source, space), space)) == stored
    assert {len(one.code) for one in stored} == {code_bytes(dimensions)}
    counts = current_blocks_of(source, space).order_by("number").values_list("number", "last_item", "passages")
    assert list(counts) == [(0, 7, 24), (1, 9, 6)]
    repack(source, space, Passages.none(space), numbers)
    assert not current_blocks_of(source, space).exists()


def test_passages_of_elements_are_replaced_in_whichever_item_they_were(owner: User) -> None:
    conversation, source = indexed(owner)
    (item,) = read_items(source, 9, 9)
    moved = [replace(element, item_number=0) for element in item.elements]
    before = stored_passages()
    store_element_passages(source, active_space(), moved)
    after = stored_passages()
    assert sorted(one.content_hash for one in after) == sorted(one.content_hash for one in before)
    assert {one.item_number for one in after if one.element_id in {e.element_id for e in moved}} == {0}
    assert conversation.messages.count() == len({one.element_id for one in after})


def test_entries_of_items_are_those_of_their_passages(owner: User) -> None:
    _, source = indexed(owner)
    other = make_user()
    _, theirs = indexed(other)
    keys = [(source.pk, 0), (source.pk, 9), (source.pk, 99), (theirs.pk, 0)]
    found = entries_of_items(owner.pk, active_space(), keys)
    assert set(found) == {(source.pk, 0), (source.pk, 9)}
    for (_, number), entries in found.items():
        expected = [one for one in stored_passages(source=source) if one.item_number == number]
        assert entries["element"].tolist() == [one.element_id for one in expected]
        assert entries["end"].tolist() == [one.end for one in expected]
        assert OF_ITEM not in entries["kind"]


@pytest.mark.parametrize("apart", [-1_000_000, 0, 100, 1_000_000])
def test_slices_hold_the_words_of_each_passage(owner: User, apart: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SMALL", 0)
    monkeypatch.setattr(blocks, "READ_TOGETHER", apart)
    for _ in range(2):
        indexed(owner)
    read = blocks._read(owner.pk, active_space(), None)
    assert read is not None
    assert read.tokens is None
    of_passages = np.flatnonzero(read.kinds != OF_ITEM)
    every = stored_passages(archive_id=owner.pk)
    places = np.random.default_rng(2).permutation(of_passages)[:17]
    expected = [every[int(np.searchsorted(of_passages, place))].tokens for place in places]
    assert PendingTokens(owner.pk, read, places).read() == expected
    PassageBlock.objects.filter(pk=int(read.ids[0])).delete()
    left = PendingTokens(owner.pk, read, of_passages).read()
    assert left[0] == b""
    assert left[-1] == every[-1].tokens


def test_equal_texts_are_those_that_the_owner_has_now(owner: User) -> None:
    _, source = indexed(owner)
    space = active_space()
    digests = sorted({one.content_hash for one in stored_passages()})
    assert sorted(equal_passages(owner.pk, space, [*digests, uuid4()])) == digests
    assert equal_passages(make_user().pk, space, digests) == {}
    current_blocks_of(source, space).filter(number=0).delete()
    left = {one.content_hash for one in stored_passages()}
    assert set(equal_passages(owner.pk, space, digests)) == left != set(digests)
    current_blocks_of(source, space).delete()
    assert equal_passages(owner.pk, space, digests) == {}
    assert equal_texts.CACHE.get(owner.pk, space.pk) is None


def test_conversation_that_is_trashed_twice_keeps_what_is_newest(owner: User) -> None:
    conversation, source = indexed(owner)
    caller = Caller.of(owner)
    stored = {one.content_hash for one in stored_passages()}
    for _ in range(2):
        ingest.delete_conversation(caller=caller, conversation_id=conversation.pk)
        assert stored_passages() == []
        assert {one.content_hash for one in stored_passages(is_kept=True)} == stored
        assert search(caller=caller, query=SearchQuery(text="How long does dish 3 take?")).hits == []
        ingest.restore_conversation(caller=caller, conversation_id=conversation.pk)
        assert stored_passages() == []
    assert index_conversation(conversation_id=conversation.pk).computed == 0
    assert {one.content_hash for one in stored_passages()} == stored
    assert not PassageBlock.objects.filter(is_kept=True).exists()
    source.refresh_from_db()
    assert search(caller=caller, query=SearchQuery(text="How long does dish 3 take?")).hits[0].number == 3


def put_back(owner: User, conversation: Conversation) -> None:
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
    ingest.restore_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)


def test_turns_that_stay_are_not_embedded_again_where_later_ones_were_superseded(owner: User) -> None:
    conversation, _ = indexed(owner)
    later = conversation.messages.filter(turn_number=5).order_by("position")[0]
    ingest.supersede_from(caller=Caller.of(owner), conversation_id=conversation.pk, message_id=later.pk)
    put_back(owner, conversation)
    assert index_conversation(conversation_id=conversation.pk).computed == 0
    assert max(one.item_number for one in stored_passages(is_kept=None)) == 4


def test_passages_that_an_unfinished_index_has_not_reached_are_kept_in_trash_again(owner: User) -> None:
    long = [(f"{question} {'Words that go on. ' * 400}", answer) for question, answer in TURNS[:6]]
    conversation, _ = indexed(owner, long)
    put_back(owner, conversation)
    assert not index_conversation(conversation_id=conversation.pk, deadline=0).finished
    put_back(owner, conversation)
    result = index_conversation(conversation_id=conversation.pk)
    assert (result.finished, result.computed) == (True, 0)
    assert not PassageBlock.objects.filter(is_kept=True).exists()


def test_conversation_trashed_at_the_end_of_its_index_keeps_its_passages(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation, _ = indexed(owner)
    stored = sorted(one.content_hash for one in stored_passages())
    put_back(owner, conversation)
    drop_kept = active._drop_kept

    def trash_and_drop(source: Source, space: EmbeddingSpace) -> None:
        ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
        drop_kept(source, space)

    monkeypatch.setattr(active, "_drop_kept", trash_and_drop)
    assert index_conversation(conversation_id=conversation.pk).finished
    assert {one.content_hash for one in stored_passages(is_kept=True)} == set(stored)


@pytest.mark.usefixtures("documents_here")
def test_document_put_back_while_documents_are_not_embedded_keeps_its_passages(owner: User, settings: Settings) -> None:
    document = indexed_document(upload(owner, GUIDE))
    stored = [one[1:] for one in stored_passages()]
    library.delete_document(caller=Caller.of(owner), document_id=document.pk)
    settings.RAG_ENABLED = False
    trash.restore(caller=Caller.of(owner), kind="document", object_id=document.pk)
    indexed_document(document)
    assert [one[1:] for one in stored_passages(is_kept=True)] == stored
    settings.RAG_ENABLED = True
    mark_damage(find_damage(active_space(), ("missing",)), active_space())
    source = Source.objects.get(kind="document", object_id=document.pk)
    assert index_source(archive_id=owner.pk, source_id=source.pk).computed == 0
    assert len(stored_passages()) == len(stored)


def test_recall_by_words_tells_the_turn_before_one_that_is_not_embedded(owner: User) -> None:
    conversation, _ = indexed(owner, TURNS[:2])
    more = [user_says("Where is the trowel?"), assistant_says("The trowel hangs on the wall.")]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=more)
    with patch("search.retrieval.dense.query_embedding", side_effect=EmbedderUnavailable("no model")):
        messages = recall(caller=Caller.of(owner), query=RecallQuery("where does the trowel hang")).messages
    assert [(one.turn_number, len(one.earlier)) for one in messages if one.turn_number == 2] == [(2, 2), (2, 2)]
