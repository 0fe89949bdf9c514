"""Requested message embeddings: skipped, pending, failed and retried ones."""

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolResultPart
from convmemory.conversations.models import Conversation, Message
from convmemory.core.errors import EmbedderUnavailable, InvalidInput, NotFound
from convmemory.core.queue.retrying import EMBEDDING
from memory.embedding import embed_messages, request_embeddings
from memory.models import MessageEmbedding
from memory.records import give_up_dead, memory_stats, messages_to_embed
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.passages import stored_passages

pytestmark = pytest.mark.django_db

PAIRS = [(f"What is the colour of planet number {n}?", f"Planet number {n} is of a dusty red.") for n in range(3)]


def ids_of(conversation: Conversation) -> list[int]:
    return list(conversation.messages.order_by("position").values_list("pk", flat=True))


def statuses() -> dict[int, str]:
    return dict(MessageEmbedding.objects.values_list("message_id", "status"))


def test_index_writes_records(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    records = MessageEmbedding.objects.order_by("message__position").select_related("message")
    passages = stored_passages()
    assert [record.message_id for record in records] == ids_of(conversation)
    for record in records:
        assert (record.archive_id, record.status, record.error) == (owner.pk, "completed", "")
        assert (record.role, record.position) == (record.message.role, record.message.position)
        assert bytes(record.content_hash) == bytes(record.message.content_hash)[:16]
        assert record.token_count == sum(p.token_count for p in passages if p.element_id == record.message_id)
    stats = memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert (stats.embedded, stats.pending, stats.failed) == (6, 0, 0)
    assert stats.tokens == sum(record.token_count for record in records)


def test_request_becomes_pending_and_then_completed_without_index(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    ids = ids_of(conversation)
    requested = request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids[:3])
    assert [record.status for record in requested.records] == ["pending"] * 3
    assert memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk).pending == 6
    result = embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=requested.to_embed)
    assert (result.finished, result.completed, result.failed) == (True, 3, 0)
    assert statuses() == dict.fromkeys(ids[:3], "completed")
    count = len(stored_passages(is_kept=None))
    assert count
    index_conversation(conversation_id=conversation.pk)
    assert sum(p.element_id in ids[:3] for p in stored_passages(is_kept=None)) == count  # replaced, not doubled


def test_embedded_messages_stay_completed_when_requested_again(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    requested = request_embeddings(
        caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids_of(conversation)
    )
    assert {record.status for record in requested.records} == {"completed"}
    assert requested.to_embed == []


def test_tool_and_system_messages_are_skipped_and_said_so(owner: User) -> None:
    drafts = [
        MessageDraft(role="system", parts=(TextPart("You are terse."),)),
        user_says("List the files."),
        MessageDraft(role="tool", parts=(ToolResultPart(call_id="1", text="a.txt"),)),
        MessageDraft(role="user", parts=(TextPart("<reminder>be brief</reminder>"),), injected=True),
        assistant_says("There is a.txt."),
    ]
    conversation = make_conversation(owner, drafts)
    requested = request_embeddings(
        caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids_of(conversation)
    )
    assert [record.role for record in requested.records] == ["user", "assistant"]
    assert [skipped.role for skipped in requested.skipped] == ["system", "tool", "user"]
    assert all(skipped.reason for skipped in requested.skipped)
    assert len(statuses()) == 2


def test_message_without_answer_is_embedded_like_any_other(owner: User) -> None:
    conversation = make_conversation(owner, [user_says("What is the colour of Mars?")])
    (number,) = ids_of(conversation)
    requested = request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=[number])
    assert requested.to_embed == [number]
    assert memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk).pending == 1
    assert embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=[number]).completed == 1
    assert statuses() == {number: "completed"}
    ingest.append_messages(
        caller=Caller.of(owner), conversation_id=conversation.pk, drafts=[assistant_says("A dusty red.")]
    )
    index_conversation(conversation_id=conversation.pk)
    assert set(statuses().values()) == {"completed"}
    assert {passage.item_number for passage in stored_passages(is_kept=None)} == {0}


def test_foreign_and_unknown_messages_raise_same_error(owner: User) -> None:
    own = make_conversation(owner, exchange(*PAIRS))
    foreign = make_conversation(make_user(), exchange(*PAIRS))
    texts = set()
    for number in (ids_of(foreign)[0], 10**9, 10**30, -1):
        with pytest.raises(NotFound) as caught:
            request_embeddings(caller=Caller.of(owner), conversation_id=own.pk, message_ids=[ids_of(own)[0], number])
        texts.add(str(caught.value).replace(str(number), "N"))
    assert len(texts) == 1
    for number in (foreign.pk, foreign.pk + 1000):
        with pytest.raises(NotFound):
            request_embeddings(caller=Caller.of(owner), conversation_id=number, message_ids=ids_of(foreign))
        with pytest.raises(NotFound):
            memory_stats(caller=Caller.of(owner), conversation_id=number)
    assert statuses() == {}


@pytest.mark.parametrize("count", [0, 1001])
def test_request_for_no_or_too_many_ids_is_refused(owner: User, count: int) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    with pytest.raises(InvalidInput, match="name 1 to 1000"):
        request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=[1] * count)


def test_damaged_message_fails_without_affecting_others(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    ids = ids_of(conversation)
    Message.objects.filter(pk=ids[2]).update(parts=[{"type": "hologram"}])
    request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids)
    result = embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=ids)
    assert (result.completed, result.failed) == (5, 1)
    failed = MessageEmbedding.objects.get(status="failed")
    assert failed.message_id == ids[2]
    assert "hologram" in failed.error
    assert memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk).failed == 1


def test_without_model_records_fail_and_are_tried_again_with_growing_pauses(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS[:1]))
    ids = ids_of(conversation)
    request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids)
    for attempt in range(1, EMBEDDING.max_attempts + 1):
        with patch("search.vectors.passages.embedder_for", side_effect=EmbedderUnavailable("no model")):
            while set(MessageEmbedding.objects.values_list("attempts", flat=True)) != {attempt}:
                embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=ids)
        assert set(MessageEmbedding.objects.values_list("status", "error")) == {("failed", "no model")}
        pause = timedelta(minutes=2**attempt)
        for age, found in ((pause * 0.9, {}), (pause * 1.1, {(owner.pk, conversation.pk): sorted(ids)})):
            MessageEmbedding.objects.update(updated_at=timezone.now() - age)
            due = {home: sorted(numbers) for home, numbers in messages_to_embed(limit=10).items()}
            assert due == (found if attempt < EMBEDDING.max_attempts else {})
    request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids)  # a new request
    assert embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=ids).completed == 2


def test_indexing_without_model_marks_new_messages_failed(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS[:1]))
    index_conversation(conversation_id=conversation.pk)
    more = [user_says("Another?"), assistant_says("Another one.")]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=conversation.pk, drafts=more)
    with (
        patch("search.vectors.passages.embedder_for", side_effect=EmbedderUnavailable("no model")),
        pytest.raises(EmbedderUnavailable),
    ):
        index_conversation(conversation_id=conversation.pk)
    by_position = dict(MessageEmbedding.objects.values_list("message__position", "status"))
    assert by_position == {0: "completed", 1: "completed", 2: "failed", 3: "failed"}


def test_message_that_killed_its_worker_is_retried_alone_then_fails(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    ids = ids_of(conversation)
    request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids)
    long_ago = timezone.now() - timedelta(hours=1)
    MessageEmbedding.objects.update(status="processing", attempts=1, updated_at=long_ago)
    batches: list[int] = []

    def count(*arguments: Any) -> dict[int, str]:
        batches.append(len(arguments[2]))
        return {}

    assert sorted(messages_to_embed(limit=10)[conversation.archive_id, conversation.pk]) == sorted(ids)
    with patch("memory.embedding.store_element_passages", count):
        embed_messages(archive_id=owner.pk, conversation_id=conversation.pk, message_ids=ids[:2])
    assert batches == [1, 1]
    MessageEmbedding.objects.update(attempts=EMBEDDING.max_attempts, updated_at=timezone.now())
    assert give_up_dead() == 0  # a worker may still be at it
    MessageEmbedding.objects.update(updated_at=long_ago)
    assert give_up_dead() == 6
    assert set(statuses().values()) == {"failed"}
    assert "worker died" in MessageEmbedding.objects.all()[0].error


def test_changed_message_counts_as_pending_until_it_is_embedded_again(owner: User) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    Message.objects.filter(conversation=conversation, position=0).update(content_hash=b"x" * 32)
    stats = memory_stats(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert (stats.embedded, stats.pending) == (5, 1)


def test_records_name_the_positions_of_messages_that_moved(owner: User) -> None:
    late, early = exchange(("Which is last?", "This is last.")), exchange(("Which is first?", "This is first."))
    early = [MessageDraft(role=d.role, parts=d.parts, source_key=f"early-{d.source_key}") for d in early]

    def sync(drafts: list[MessageDraft]) -> int:
        draft = ConversationDraft(drafts, source="test", source_id="one")
        number = ingest.sync_conversation(caller=Caller.of(owner), draft=draft).conversation_id
        index_conversation(conversation_id=number)
        return number

    number = sync(late)
    assert sync([*early, *late]) == number
    ids = ids_of(Conversation.objects.get(pk=number))
    asked = request_embeddings(caller=Caller.of(owner), conversation_id=number, message_ids=ids)
    assert [(record.position, record.message_id) for record in asked.records] == list(enumerate(ids))
