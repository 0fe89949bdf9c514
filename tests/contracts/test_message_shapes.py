"""Every documented shape of messages is stored by the API as an import of the same messages stores it."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.api import Api

pytestmark = pytest.mark.django_db

PNG = base64.b64encode(bytes(range(256)) * 8).decode()
TIMES = {"created_at": "2026-03-01T10:00:00Z"}
Messages = list[dict[str, Any]]


class Shape(NamedTuple):
    """Messages, the kinds of parts that are stored of each, and the file in which an import gets them."""

    messages: Messages
    kinds: list[str]
    file: Callable[[Messages], Any] = lambda messages: {"messages": messages}


def _export(messages: Messages) -> dict[str, Any]:
    names = ("title", "agent", "project", "parent_source_id", "created_at", "updated_at", "archived_at")
    conversation = {"id": 1, "source": "claude-code", "source_id": "s", **dict.fromkeys(names[:4], "")}
    conversation |= {"created_at": TIMES["created_at"], "updated_at": TIMES["created_at"], "archived_at": None}
    return {
        "format": "convmemory-conversations",
        "version": 1,
        "conversations": [conversation | {"messages": messages}],
    }


WEATHER = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
SHAPES = {
    "our own": Shape(
        [
            {"role": "user", "content": "Weather?", "name": "Ada", **TIMES},
            {"role": "assistant", "content": "Sun.", "model": "some-model"},
        ],
        ["text", "text"],
    ),
    "our own parts, as an export writes them": Shape(
        [
            {"position": 0, "role": "user", "is_real_user": True, "superseded": True, "name": "Ada", "model": "",
             "turn_number": None, "source_key": "u0", **TIMES, "parts": [{"type": "text", "text": "Whether?"}]},
            {"position": 1, "role": "user", "is_real_user": True, "superseded": False, "name": "Ada", "model": "",
             "turn_number": 0, "source_key": "u1", **TIMES, "mark": {"kind": "wrong", "note": "rain"}, "parts": [
                 {"type": "text", "text": "Weather?"},
                 {"type": "attachment", "name": "a.pdf", "media_type": "application/pdf", "size_bytes": 9}]},
            {"position": 2, "role": "assistant", "is_real_user": False, "superseded": False, "name": "", "model": "m",
             "turn_number": 0, "source_key": "a1", **TIMES, "parts": [
                 {"type": "thinking", "text": "Hm."}, {"type": "text", "text": "Let me see."},
                 {"type": "tool_call", "id": "c1", "name": "weather", "input": {"city": "Lima"}}]},
            {"position": 3, "role": "tool", "is_real_user": False, "superseded": False, "name": "", "model": "",
             "turn_number": 0, "source_key": "t1", "created_at": None, "parts": [
                 {"type": "tool_result", "call_id": "c1", "text": "none", "name": "weather", "is_error": True}]},
        ],
        ["text", "text attachment", "thinking text tool_call", "tool_result"],
        _export,
    ),
    "OpenAI chat": Shape(
        [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "developer", "content": "And kind."},
            {"role": "user", "name": "ada", "content": [{"type": "text", "text": "Weather?"}, IMAGE,
                {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}}]},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [WEATHER,
                {"id": "c2", "type": "custom", "custom": {"name": "note", "input": "sun"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "sun"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "noted"}]},
            {"role": "assistant", "content": "<think>Easy.</think>Sun.", "refusal": None, "annotations": []},
            {"role": "user", "content": "A poem?"},
            {"role": "assistant", "content": None, "refusal": "I will not rhyme."},
            {"role": "user", "content": "Say it."},
            {"role": "assistant", "content": None, "audio": {"id": "a", "data": PNG, "transcript": "It is sunny."}},
            {"role": "user", "content": "Once more, as in 2023."},
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
            {"role": "function", "name": "weather", "content": "sun"},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": [{"type": "text", "text": "Sun "}, {"type": "refusal", "refusal": "No."}]},
        ],
        [
            *("text", "text", "text attachment attachment attachment", "thinking tool_call tool_call", "tool_result"),
            *("tool_result", "thinking text", "text", "text", "text", "attachment text", "text", "tool_call"),
            *("tool_result", "text text"),
        ],
    ),
    "OpenAI Responses": Shape(
        [
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}],
             "content": [{"type": "reasoning_text", "text": "Look."}]},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": PNG},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "weather", "arguments": '{"city": "Lima"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "sun"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "note", "input": "sun"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "noted"}]},
            {"type": "local_shell_call", "id": "ls_1", "call_id": "c3", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "c3", "output": "a.txt"},
            {"type": "mcp_approval_request", "id": "ar_1", "name": "rain", "server_label": "sky", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "ar_1", "approve": True},
            {"type": "item_reference", "id": "msg_0"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "Sun.", "annotations": []}, {"type": "refusal", "refusal": "No."}]},
        ],
        [
            *("text", "text attachment attachment", "thinking", "tool_call", "tool_call", "tool_result", "tool_call"),
            *("tool_result", "tool_call", "tool_result", "tool_call", "tool_result", "text text"),
        ],
        lambda messages: messages,
    ),
    "Anthropic": Shape(
        [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "document", "title": "lease", "source": {"type": "text", "data": "rent"}}]},
            {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "redacted_thinking", "data": PNG},
                {"type": "text", "text": "Let me see.", "citations": None},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "Lima"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result",
                    "url": "https://example.org", "title": "Lima"}]},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Lima"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": [
                {"type": "text", "text": "none"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": "sun"},
                {"type": "text", "text": "And now?"}, {"type": "hologram", "of": "a sun"}]},
            {"role": "assistant", "content": "Sun."},
        ],
        [
            *("text attachment attachment", "thinking text tool_call tool_result tool_call", "tool_result"),
            *("tool_result text tool_result", "text"),
        ],
    ),
    "Gemini contents": Shape(
        [
            {"role": "user", "parts": [{"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": PNG}},
                {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}}]},
            {"role": "model", "parts": [{"text": "Hm.", "thought": True},
                {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "Lima"}}, "thoughtSignature": PNG}]},
            {"role": "function", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "sun"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "weather", "response": {"sky": 1}}}]},
            {"role": "model", "parts": [{"text": "Sun"}, {"text": " today."},
                {"executableCode": {"language": "PYTHON", "code": "print(1)"}}]},
        ],
        ["text attachment attachment", "thinking tool_call", "tool_result", "tool_result", "text text text"],
        lambda messages: {"contents": messages},
    ),
    "roles and parts that nothing documents": Shape(
        [
            {"role": "user", "content": "Weather?"},
            {"role": "critic", "content": "Too short."},
            {"role": "assistant", "content": [{"type": "hologram", "of": "a sun"}, 7, "Sun."]},
            {"role": "assistant", "content": {"answer": "sun"}, "tool_calls": "weather"},
            {"role": "user", "content": 7},
        ],
        ["text", "text", "text text text", "text text", "text"],
    ),
}  # fmt: skip


@pytest.fixture
def api(owner: User) -> Api:
    return Api(owner)


@pytest.fixture(params=SHAPES, ids=lambda name: name.replace(" ", "_"))
def shape(request: pytest.FixtureRequest) -> Shape:
    return SHAPES[request.param]


@pytest.fixture
def imported(shape: Shape, tmp_path: Path) -> Conversation:
    """The conversation that an import of the messages stores for another user."""
    owner = make_user()
    (tmp_path / "chat.json").write_text(json.dumps(shape.file(shape.messages)))
    report = import_paths(caller=Caller.of(owner), paths=[tmp_path / "chat.json"])
    assert (report.total("conversations"), report.total("skipped")) == (1, 0), report.to_json()
    return Conversation.objects.get(archive_id=owner.pk)


def stored(conversation: Conversation) -> list[dict[str, Any]]:
    """The messages, without times: an import dates messages without one by their file."""
    names = ("role", "is_real_user", "superseded", "name", "model", "parts", "turn_number")
    return list(conversation.messages.order_by("position").values(*names))


def of_user(owner: User) -> Conversation:
    return Conversation.objects.get(archive_id=owner.pk)


def test_api_stores_messages_as_import_does(api: Api, owner: User, shape: Shape, imported: Conversation) -> None:
    answer = api.send("POST", "/conversations", {"messages": shape.messages})
    assert answer.status_code == 201, answer.content
    assert stored(of_user(owner)) == stored(imported)
    assert [" ".join(part["type"] for part in row["parts"]) for row in stored(imported)] == shape.kinds


@pytest.mark.parametrize("at_once", [True, False], ids=["in_one_request", "one_by_one"])
def test_appended_messages_are_stored_as_import_does(
    api: Api, owner: User, shape: Shape, imported: Conversation, at_once: bool
) -> None:
    number = api.send("POST", "/conversations", {}).json()["id"]
    for messages in [shape.messages] if at_once else [[message] for message in shape.messages]:
        answer = api.send("POST", f"/conversations/{number}/messages", {"messages": messages})
        assert answer.status_code == 201, answer.content
    assert stored(of_user(owner)) == stored(imported)


def test_conversation_sent_again_by_its_id_changes_nothing(api: Api, owner: User, shape: Shape) -> None:
    sent = {"source_id": "7", "messages": shape.messages}
    statuses = [api.send("POST", "/conversations", body).status_code for body in (sent, sent)]
    before = stored(of_user(owner))
    longer = {**sent, "messages": [*shape.messages, {"role": "user", "content": "Thanks."}]}
    assert [*statuses, api.send("POST", "/conversations", longer).status_code] == [201, 200, 200]
    assert [row["parts"] for row in stored(of_user(owner))] == [
        *(row["parts"] for row in before), [{"type": "text", "text": "Thanks."}],
    ]  # fmt: skip
