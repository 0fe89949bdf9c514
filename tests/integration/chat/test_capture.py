"""Recording exchanges from their bytes alone: replies that broke off, and exchanges recorded in any order."""

import json
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.chat.capture import Captured, Origin, ReceivedReply, ReplyReader, read_exchange, record_exchange
from convmemory.chat.models import Reply
from convmemory.chat.wires import CHAT, RESPONSES
from convmemory.conversations.models import Conversation
from tests.factories import make_user

pytestmark = pytest.mark.django_db

BEGINNING = b'data: {"choices":[{"delta":{"content":"Li"}}]}\n\n'


def origin() -> Origin:
    return Origin(CHAT, timezone.now())


def broken_reply() -> ReceivedReply:
    reply = ReplyReader(CHAT)
    reply.feed(BEGINNING)
    return reply.received()


@pytest.mark.parametrize("model", ["m\x00\ud800", "m" * 1_000, ""])
def test_broken_exchange_with_any_model_name_is_recorded(model: str) -> None:
    owner = make_user()
    asked = {"model": model, "messages": [{"role": "user", "content": "Peru?"}]}
    captured = read_exchange(origin(), json.dumps(asked).encode(), broken_reply(), cut_by="It broke.")
    assert captured is not None
    record_exchange(caller=Caller.of(owner), captured=captured)
    reply = Reply.objects.get()
    assert (reply.archive_id, reply.conversation, reply.error) == (owner.pk, Conversation.objects.get(), "It broke.")


def test_broken_exchange_without_question_is_recorded_without_one() -> None:
    captured = read_exchange(
        origin(), b'{"messages": [{"role": "system", "content": "Speak."}]}', broken_reply(), cut_by="It broke."
    )
    assert captured is not None
    record_exchange(caller=Caller.of(make_user()), captured=captured)
    assert Reply.objects.get().question is None


@pytest.mark.parametrize(
    "asked",
    [
        [("user", "Generate a title for this conversation:\n"), ("user", "Peru?")],
        [("user", "Peru?"), ("assistant", "Lima."), ("user", "### Task:\nGenerate 1-3 broad tags of the chat.")],
        [("user", "Managed memory has TWO directories."), ("assistant", "I write."), ("tool", "written")],
    ],
    ids=["title before its question", "tags after an answer", "memory by a tool"],
)
def test_request_of_client_for_itself_is_not_recorded(asked: list[tuple[str, str]]) -> None:
    messages = [{"role": role, "content": text, "tool_call_id": "1"} for role, text in asked]
    assert read_exchange(origin(), json.dumps({"messages": messages}).encode(), broken_reply()) is None


def test_question_after_request_of_client_for_itself_is_recorded() -> None:
    asked = [("user", "Generate a title for this conversation: Peru"), ("assistant", "Peru"), ("user", "Why Peru?")]
    messages = [{"role": role, "content": text} for role, text in asked]
    assert read_exchange(origin(), json.dumps({"messages": messages}).encode(), broken_reply()) is not None


def exchanges(count: int) -> list[Captured]:
    """Return the exchanges of one conversation, each of which repeats those before."""
    messages: list[dict[str, Any]] = []
    made = []
    for number in range(count):
        messages.append({"role": "user", "content": f"question {number}"})
        reply = ReplyReader(CHAT)
        answer = {"role": "assistant", "content": f"answer {number}"}
        reply.add(json.dumps({"choices": [{"message": answer}]}).encode())
        captured = read_exchange(origin(), json.dumps({"messages": messages}).encode(), reply.received())
        assert captured is not None
        made.append(captured)
        messages.append(answer)
    return made


def texts_of(owner: User) -> list[list[str]]:
    conversations = Conversation.objects.filter(archive_id=owner.pk).order_by("pk")
    return [[row.parts[0]["text"] for row in each.messages.order_by("position")] for each in conversations]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_exchanges_recorded_in_any_order_make_one_conversation(order: tuple[int, ...]) -> None:
    owner, made = make_user(), exchanges(3)
    for number in order:
        record_exchange(caller=Caller.of(owner), captured=made[number])
    assert texts_of(owner) == [[f"{what} {number}" for number in range(3) for what in ("question", "answer")]]


def test_same_exchange_at_later_time_is_another_conversation() -> None:
    owner, (first, *_) = make_user(), exchanges(1)
    record_exchange(caller=Caller.of(owner), captured=first)
    later = exchanges(1)[0]
    record_exchange(caller=Caller.of(owner), captured=later)
    assert texts_of(owner) == [["question 0", "answer 0"]] * 2
    assert later.origin.arrived_at - first.origin.arrived_at < timedelta(minutes=1)


def test_response_that_continues_another_by_its_id_continues_its_conversation() -> None:
    owner = make_user()
    for number in range(3):
        reply = ReplyReader(RESPONSES)
        said = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": f"answer {number}"}],
        }
        reply.add(json.dumps({"object": "response", "id": f"resp_{number}", "output": [said]}).encode())
        asked = {"input": f"question {number}", "previous_response_id": f"resp_{number - 1}" if number else None}
        captured = read_exchange(Origin(RESPONSES, timezone.now()), json.dumps(asked).encode(), reply.received())
        assert captured is not None
        record_exchange(caller=Caller.of(owner), captured=captured)
    stranger = make_user()
    assert captured is not None
    record_exchange(caller=Caller.of(stranger), captured=captured)
    assert texts_of(owner) == [[f"{what} {number}" for number in range(3) for what in ("question", "answer")]]
    assert texts_of(stranger) == [["question 2", "answer 2"]], "another owner's response id names nothing"
