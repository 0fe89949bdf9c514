"""Messages that clients send to the API: their ids, what cannot be stored, and what earlier versions lost of them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolResultPart, unpack_lines
from convmemory.conversations.models import Conversation, MessageSource
from tests.factories import assistant_says, make_conversation, make_user, user_says
from tests.support.api import Api, problem_of

pytestmark = pytest.mark.django_db

ASKED = {"role": "user", "content": "Weather?", "id": "m1"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
CALLED = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL], "id": "m2"}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "sun", "id": "m3"}
TOLD = {"role": "assistant", "content": "Sun.", "reasoning_content": "Easy.", "id": "m4"}


def kinds(number: int) -> list[str]:
    rows = Conversation.objects.get(pk=number).messages.order_by("position")
    return [" ".join(part["type"] for part in row.parts) for row in rows]


@pytest.fixture
def number(api: Api) -> int:
    made: int = api.send("POST", "/conversations", {"messages": [ASKED, CALLED]}).json()["id"]
    return made


def test_messages_sent_again_with_their_ids_are_stored_once(api: Api, number: int) -> None:
    answers = [
        api.send("POST", f"/conversations/{number}/messages", {"messages": [CALLED, ANSWERED, TOLD]}) for _ in "12"
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert kinds(number) == ["text", "thinking tool_call", "tool_result", "thinking text"]
    shown = [[row["position"] for row in answer.json()["results"]] for answer in answers]
    assert shown == [[1, 2, 3], [1, 2, 3]]


def test_id_of_another_message_is_refused_and_nothing_is_stored(api: Api, number: int) -> None:
    sent = {"messages": [TOLD, {**TOLD, "id": "m1"}]}
    assert "the id 'm1'" in problem_of(api.send("POST", f"/conversations/{number}/messages", sent), 422)
    assert len(kinds(number)) == 2


def test_turn_whose_id_a_message_has_is_refused_and_nothing_is_stored(api: Api) -> None:
    first = {"role": "user", "content": "Weather?", "id": "turn:0:assistant"}
    number = api.send("POST", "/conversations", {"messages": [first]}).json()["id"]
    turn = {"turn_number": 0, "user": "Rain?", "assistant": "No."}
    answer = api.send("POST", f"/conversations/{number}/turns", turn)
    assert "has the id 'turn:0:assistant', which turn 0 would get" in problem_of(answer, 422)
    assert kinds(number) == ["text"]


def test_same_ids_in_two_archives_are_separate(api: Api, number: int) -> None:
    stranger = Api(make_user())
    other = stranger.send("POST", "/conversations", {"messages": [ASKED]}).json()["id"]
    assert stranger.send("POST", f"/conversations/{number}/messages", {"messages": [TOLD]}).status_code == 404
    assert stranger.send("POST", f"/conversations/{other}/messages", {"messages": [CALLED]}).status_code == 201
    assert len(kinds(number)) == len(kinds(other)) == 2


def test_source_of_message_is_kept(number: int) -> None:
    rows = MessageSource.objects.filter(message__conversation_id=number).order_by("message__position")
    sources = [json.loads(unpack_lines(bytes(row.data)) or b"") for row in rows]
    assert sources == [ASKED, CALLED]


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {}}]])
def test_separate_system_prompt_is_first_message(api: Api, system: Any) -> None:
    for status in (201, 200):
        answer = api.send("POST", "/conversations", {"source_id": "7", "system": system, "messages": [ASKED, TOLD]})
        assert answer.status_code == status
    first, *_ = api.get(f"/conversations/{answer.json()['id']}/messages").json()["results"]
    assert (first["role"], first["parts"], first["turn_number"]) == (
        "system",
        [{"type": "text", "text": "Be brief."}],
        None,
    )
    assert answer.json()["title"] == "Weather?"


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "no role": ({"content": "x"}, "has no role"),
    "no content": ({"role": "user"}, "has no content"),
    "tool without content": ({"role": "tool", "tool_call_id": "c"}, "has no content"),
    "text in fields of another format": ({"role": "user", "blocks": [{"text": "x"}]}, "not known: blocks"),
    "no time": ({"role": "user", "content": "x", "created_at": "yesterday"}, "created_at is no time"),
    "Gemini without a role": ({"parts": [{"text": "x"}]}, "has no role"),
    "unknown role of Gemini": ({"role": "wizard", "parts": [{"text": "x"}]}, "no message of a known kind"),
    "unknown role of ours": ({"role": "wizard", "parts": [{"type": "text", "text": "x"}]}, "unknown role 'wizard'"),
    "text that is none": ({"role": "user", "parts": [{"type": "text", "text": 7}]}, "no str"),
    "arguments that are none": (
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "input": "x"}]}, "no dict",
    ),
    "size that is none": (
        {"role": "user", "parts": [{"type": "attachment", "name": "a", "size_bytes": 10**30}]}, "out of range",
    ),
    "field that is none": ({"role": "user", "parts": [{"type": "text", "text": "x", "y": 1}]}, "unexpected"),
    "time that is none": (
        {"role": "user", "parts": [{"type": "text", "text": "x"}], "created_at": "0001-01-01T00:00+14:00"}, "no time",
    ),
    "mark that is none": (
        {"role": "user", "parts": [{"type": "text", "text": "x"}], "mark": {"kind": "odd"}}, "odd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_message_that_cannot_be_stored_is_named_with_reason(api: Api, number: int, case: str) -> None:
    message, reason = REFUSED[case]
    for path, sent in ((f"/conversations/{number}/messages", [ASKED, message]), ("/conversations", [ASKED, message])):
        answer = api.send("POST", path, {"messages": sent})
        assert problem_of(answer, 422).startswith("body.messages.1: ")
        assert reason in answer.json()["detail"]
        assert answer.json()["errors"][0]["place"] == "body.messages.1"
    assert len(kinds(number)) == 2
    assert Conversation.objects.count() == 1


EMPTY: tuple[dict[str, Any], ...] = (
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": None, "tool_calls": []},
    {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
    {"role": "model", "parts": [{"text": "", "thoughtSignature": "x"}]},
    {"role": "model", "parts": []},
)


@pytest.mark.parametrize("message", EMPTY)
def test_message_without_content_is_accepted_and_not_stored(api: Api, message: dict[str, Any]) -> None:
    answer = api.send("POST", "/conversations", {"messages": [ASKED, message, TOLD]})
    assert (answer.status_code, kinds(answer.json()["id"])) == (201, ["text", "thinking text"])


def test_text_next_to_empty_content_is_stored(api: Api) -> None:
    answer = api.send("POST", "/conversations", {"messages": [{"role": "user", "content": None, "text": "Weather?"}]})
    assert spoken_of(api, answer.json()["id"]) == ["Weather?"]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:00:00-14:00", "1966-01-01T00:00:00Z"])
def test_time_that_is_implausible_is_refused(api: Api, number: int, time: str) -> None:
    """Stored, the first two made every list of the archive fail: PostgreSQL keeps them, Python cannot."""
    turn = {"turn_number": 0, "user": "Weather?", "assistant": "Sun.", "created_at": time}
    for path, body in (
        ("/conversations", {"created_at": time}),
        (f"/conversations/{number}/turns", turn),
        ("/conversations/by-source/maestro/7/turns", turn),
    ):
        assert "body.created_at: " in problem_of(api.send("POST", path, body), 422)
    assert api.get("/conversations").status_code == 200


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "x"}] * 20_001,
        [{"role": "user", "content": [{}] * 200_000}],
        [{"role": "user", "content": "x", "metadata": [[[]] * 200_000]}],
    ],
)
def test_request_with_too_many_values_is_refused(api: Api, messages: Any) -> None:
    assert problem_of(api.send("POST", "/conversations", {"messages": messages}), 422).startswith("body.messages: ")


def nested(levels: int, text: str) -> str:
    return '{"a":' * levels + text + "}" * levels


@pytest.mark.parametrize(
    "message",
    [
        '{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": %s}]}',
        '{"role": "model", "parts": [{"functionCall": {"name": "f", "args": %s}}]}',
        '{"role": "model", "parts": %s}',
        '{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "f", "input": %s}]}',
        '{"role": "assistant", "content": %s}',
        '{"role": "assistant", "content": null, "blocks": %s}',
        '{"type": "web_search_call", "action": %s}',
        '{"role": "wizard", "content": [%s]}',
    ],
)
@pytest.mark.parametrize("levels", [50, 300, 700, 900])
def test_deeply_nested_message_is_stored_or_refused(api: Api, message: str, levels: int) -> None:
    answer = api.send("POST", "/conversations", f'{{"messages": [{message.replace("%s", nested(levels, "1"))}]}}')
    assert answer.status_code in (201, 400, 422), answer.content
    if answer.status_code == 201:
        assert api.get(f"/conversations/{answer.json()['id']}/messages").status_code == 200


def test_messages_that_api_shows_are_stored_alike_elsewhere(api: Api, number: int) -> None:
    api.send("POST", f"/conversations/{number}/messages", {"messages": [ANSWERED, TOLD]})
    shown = api.get(f"/conversations/{number}/messages").json()["results"]
    copy = api.send("POST", "/conversations", {"messages": shown}).json()["id"]
    copied = api.get(f"/conversations/{copy}/messages").json()["results"]
    names = ("role", "name", "model", "parts", "turn_number", "superseded", "created_at")
    assert [[row[name] for name in names] for row in copied] == [[row[name] for name in names] for row in shown]


def test_times_of_messages_are_stored(api: Api) -> None:
    messages = [{**ASKED, "created_at": "2026-03-01T10:00:00Z"}, {**TOLD, "timestamp": 1772359260}]
    number = api.send("POST", "/conversations", {"messages": messages}).json()["id"]
    times = Conversation.objects.get(pk=number).messages.order_by("position").values_list("created_at", flat=True)
    assert list(times) == [datetime(2026, 3, 1, 10, minute, tzinfo=UTC) for minute in (0, 1)]


def test_conversation_of_which_earlier_version_lost_parts_is_completed(api: Api, owner: User) -> None:
    """Earlier versions stored texts and results without ids, and a row for each message without content."""
    stored = [
        user_says("Weather?"),
        assistant_says("Let me see."),
        MessageDraft("tool", (ToolResultPart("", "sun"),)),
        MessageDraft("assistant", ()),
        assistant_says("Sun."),
    ]
    number = make_conversation(owner, stored, source_id="7").pk
    empty = {"role": "assistant", "content": ""}
    messages = [ASKED, {**CALLED, "content": "Let me see."}, ANSWERED, empty, TOLD]
    for status in (200, 200):
        sent = {"source_id": "7", "messages": [*messages, {"role": "user", "content": "Thanks."}]}
        assert api.send("POST", "/conversations", sent).status_code == status
    assert kinds(number) == ["text", "thinking text tool_call", "tool_result", "", "thinking text", "text"]
    result = Conversation.objects.get(pk=number).messages.get(position=2).parts[0]
    assert result["call_id"] == "c1"
    assert spoken_of(api, number)[-2:] == ["Sun.", "Thanks."]


def test_stored_message_is_completed_by_no_further_text(api: Api, owner: User) -> None:
    make_conversation(owner, [user_says("Weather?"), assistant_says("Sun.")], source_id="7")
    longer = {"role": "assistant", "content": [{"type": "text", "text": "Sun."}, {"type": "text", "text": "Or rain."}]}
    sent = {"source_id": "7", "messages": [ASKED, longer]}
    assert "its message 1 reads otherwise" in problem_of(api.send("POST", "/conversations", sent), 422)


def spoken_of(api: Api, number: int) -> list[str]:
    rows = api.get(f"/conversations/{number}/messages").json()["results"]
    return [part["text"] for row in rows for part in row["parts"] if part["type"] == "text"]
