"""Taking conversations back from writers that died: what had been received is kept, and one cannot hold up another."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.admin import received_messages
from convmemory.chat.models import Reply
from convmemory.chat.pages import received_parts
from convmemory.chat.progress import draft_to_json
from convmemory.chat.replies import begin_reply, start_conversation
from convmemory.conversations.messages import responses
from convmemory.conversations.models import Conversation
from convmemory.conversations.signals import response_abandoned
from convmemory.ops.runtime import sweeping
from tests.factories import assistant_says, make_user

pytestmark = pytest.mark.django_db

SOUND = [draft_to_json(assistant_says("Once"))]
DAMAGED = {"role": "assistant", "parts": "gone"}


@pytest.fixture
def owner(settings: Settings) -> User:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9/v1", "test-model"
    return make_user()


def abandoned(owner: User, partial: Any) -> Conversation:
    """A conversation whose writer has died with `partial` received; the oldest is taken back first."""
    pk = start_conversation(caller=Caller.of(owner), text="Tell me a story", agent_id=None).pk
    job = begin_reply(caller=Caller.of(owner), conversation_id=pk, text="Tell me a story")
    Reply.objects.filter(pk=job.reply_id).update(partial=partial)
    Conversation.objects.filter(pk=pk).update(processing_until=timezone.now() - timedelta(hours=1))
    return Conversation.objects.get(pk=pk)


def texts(conversation: Conversation) -> list[str]:
    return [message.parts[0]["text"] for message in conversation.messages.order_by("position")]


def states() -> list[str]:
    return list(Conversation.objects.order_by("pk").values_list("status", flat=True))


@pytest.mark.parametrize("damaged", [[DAMAGED], [*SOUND, DAMAGED], {"no": "list"}, "rubbish", [None, 3]])
def test_damaged_partial_reply_does_not_block_any_conversation(
    owner: User, damaged: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = abandoned(owner, SOUND), abandoned(owner, damaged), abandoned(owner, SOUND)
    assert sorted(responses.release_abandoned_responses()) == [first.pk, second.pk, third.pk]
    assert states() == ["idle"] * 3
    assert [texts(found)[1:] for found in (first, third)] == [["Once"]] * 2
    assert texts(second) == ["Tell me a story", *(["Once"] if damaged == [*SOUND, DAMAGED] else [])]
    assert [reply.status for reply in Reply.objects.all()] == ["interrupted"] * 3
    assert "cannot be read" in caplog.text
    assert "gone" not in caplog.text


def test_damaged_partial_message_is_kept_and_reported_on_page(owner: User, client: Client) -> None:
    conversation = abandoned(owner, [*SOUND, DAMAGED])
    responses.release_abandoned_responses()
    reply = Reply.objects.get()
    assert reply.partial == [*SOUND, DAMAGED]
    assert [part["speaker"] for part in received_messages(reply)] == ["Assistant"]
    client.force_login(owner)
    page = client.get(f"/conversations/{conversation.pk}").content.decode()
    assert "The reply was interrupted. The server went away" in page
    assert "is damaged and is missing here." in page


def test_sound_partial_reply_is_moved_out_of_its_row(owner: User) -> None:
    abandoned(owner, SOUND)
    responses.release_abandoned_responses()
    reply = Reply.objects.get()
    assert (reply.partial, reply.error) == ([], "The server went away while the reply was being written.")


def test_damaged_partial_reply_does_not_refuse_next_message(owner: User) -> None:
    conversation = abandoned(owner, [DAMAGED])
    begin_reply(caller=Caller.of(owner), conversation_id=conversation.pk, text="Are you there?")
    assert [reply.status for reply in Reply.objects.order_by("pk")] == ["interrupted", "running"]


def test_running_reply_with_damage_is_shown_as_far_as_it_can_be_read(owner: User) -> None:
    abandoned(owner, [*SOUND, DAMAGED])
    assert ["Once" in part.html for part in received_parts(Reply.objects.get())] == [True]


@pytest.fixture
def failing() -> Iterator[set[int]]:
    """Ids of conversations that cannot be taken back."""
    chosen: set[int] = set()

    def fail(sender: Any, *, conversation: Conversation, **kwargs: Any) -> list[Any]:
        if conversation.pk in chosen:
            raise RuntimeError("it cannot be taken back")
        return []

    response_abandoned.connect(fail)
    yield chosen
    response_abandoned.disconnect(fail)


def test_failed_release_of_conversation_is_logged_and_retried(
    owner: User, failing: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    first, second, third = (abandoned(owner, SOUND) for _ in range(3))
    failing.add(second.pk)
    with caplog.at_level(logging.ERROR):
        assert responses.release_abandoned_responses() == [first.pk, third.pk]
    assert f"Conversation {second.pk} could not be taken back" in caplog.text
    assert states() == ["idle", "processing", "idle"]
    assert Reply.objects.get(conversation=second).partial == SOUND
    failing.clear()
    assert responses.release_abandoned_responses() == [second.pk]
    assert texts(second) == ["Tell me a story", "Once"]


def test_sweep_continues_after_failed_release(owner: User, failing: set[int]) -> None:
    failing.add(abandoned(owner, SOUND).pk)
    abandoned(owner, SOUND)
    run = sweeping.sweep(enqueue=lambda ids: None)
    assert (run.found["stuck"], run.fixed["stuck"]) == (1, 1)
    assert states() == ["processing", "idle"]
