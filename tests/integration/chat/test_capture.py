"""Recording an exchange whose reply broke off, from its bytes alone."""

import json

import pytest

from convmemory.chat.capture import ReceivedReply, StreamedReply, read_exchange, record_exchange
from convmemory.chat.models import Reply
from convmemory.conversations.models import Conversation
from tests.factories import make_user

pytestmark = pytest.mark.django_db

BEGINNING = b'data: {"choices":[{"delta":{"content":"Li"}}]}\n\n'


def broken_reply() -> ReceivedReply:
    reply = StreamedReply()
    reply.feed(BEGINNING)
    return reply.received()


@pytest.mark.parametrize("model", ["m\x00\ud800", "m" * 1_000, ""])
def test_broken_exchange_with_any_model_name_is_recorded(model: str) -> None:
    owner = make_user()
    asked = {"model": model, "messages": [{"role": "user", "content": "Peru?"}]}
    captured = read_exchange(json.dumps(asked).encode(), broken_reply(), cut_by="It broke.")
    assert captured is not None
    record_exchange(owner=owner, captured=captured)
    reply = Reply.objects.get()
    assert (reply.owner, reply.conversation, reply.error) == (owner, Conversation.objects.get(), "It broke.")


def test_broken_exchange_without_a_question_is_recorded_without_one() -> None:
    captured = read_exchange(
        b'{"messages": [{"role": "system", "content": "Speak."}]}', broken_reply(), cut_by="It broke."
    )
    assert captured is not None
    record_exchange(owner=make_user(), captured=captured)
    assert Reply.objects.get().question is None
