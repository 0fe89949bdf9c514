"""Passages in the database: nothing computed twice, nothing left over."""

import pytest

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Message
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user
from tests.support.passages import stored_passages

pytestmark = pytest.mark.django_db

PAIRS = [
    (
        "How long do I boil an egg? I like it soft in the middle.",
        "Six minutes is right. Cool it under cold water after.",
    ),
    ("And how long for a hard one that I can take along?", "Ten minutes for a hard egg will do."),
]


def test_every_sentence_is_passage_that_names_its_place() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    passages = sorted(stored_passages(), key=lambda p: (p.element_id, p.start))
    parts = {message.pk: message.typed_parts for message in conversation.messages}
    texts = [part_text(parts[p.element_id][p.part_index])[p.start : p.end] for p in passages]
    assert texts[:2] == ["How long do I boil an egg?", "I like it soft in the middle."]
    assert all(p.block.archive_id == conversation.archive_id for p in passages)
    assert all(0 < len(p.tokens) < 48 * p.token_count for p in passages)  # all of them end in punctuation


def test_growing_turn_computes_only_what_is_new() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    before = len(stored_passages(is_kept=None))
    ingest.append_messages(
        caller=Caller.of(owner),
        conversation_id=conversation.pk,
        drafts=[assistant_says("Put it into cold water at the end.")],
    )
    result = index_conversation(conversation_id=conversation.pk)
    assert result.computed == 1
    passages = stored_passages(is_kept=None)
    assert len(passages) == sum(bool(passage.tokens) for passage in passages) == before + 1


def test_equal_texts_of_owner_are_not_computed_again() -> None:
    owner = make_user()
    computed = [
        index_conversation(conversation_id=make_conversation(owner, exchange(*PAIRS)).pk).computed for _ in range(2)
    ]
    assert computed[0] > 0
    assert computed[1] == 0
    assert len({passage.block.source_id for passage in stored_passages()}) == 2


def test_turn_that_vanishes_takes_its_passages_along() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    Message.objects.filter(conversation=conversation, turn_number=1).delete()
    conversation.refresh_from_db()
    conversation.turn_count, conversation.turns_version = 1, conversation.turns_version + 1
    conversation.save()
    index_conversation(conversation_id=conversation.pk)
    assert {passage.item_number for passage in stored_passages(is_kept=None)} == {0}
