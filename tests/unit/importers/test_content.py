import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from convmemory.conversations.importers.content import content_parts, kept_message, message_draft, refuse_unknown
from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_text,
    spoken_text,
)
from convmemory.core.errors import InvalidInput

PNG = base64.b64encode(bytes(range(256)) * 8).decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}

BLOCKS: list[tuple[Any, list[Part]]] = [
    ("hello", [TextPart("hello")]),
    ("  \n", []),
    (None, []),
    (["a", {"type": "text", "text": "b"}], [TextPart("a"), TextPart("b")]),
    ({"type": "text", "text": "alone"}, [TextPart("alone")]),
    ({"text": "no type"}, [TextPart("no type")]),
    ([{"type": "text", "text": {"value": "nested"}}], [TextPart("nested")]),
    ([{"type": "input_text", "text": "in"}, {"type": "output_text", "text": "out"}], [TextPart("in"), TextPart("out")]),
    ([{"type": "refusal", "refusal": "I cannot."}], [TextPart("I cannot.")]),
    ([{"type": "thinking", "thinking": "hm", "signature": "s"}], [ThinkingPart("hm")]),
    ([{"type": "thinking", "thinking": "", "signature": "s"}], []),
    ([{"type": "redacted_thinking", "data": PNG}], []),
    ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]}], [ThinkingPart("why")]),
    ([{"type": "tool_use", "id": "t", "name": "Read", "input": {"p": 1}}], [ToolCallPart("t", "Read", {"p": 1})]),
    ([{"type": "server_tool_use", "id": "t", "name": "web", "input": {}}], [ToolCallPart("t", "web", {})]),
    (
        [{"type": "tool_call", "id": "t", "name": "bash", "input": {"c": "ls"}}],
        [ToolCallPart("t", "bash", {"c": "ls"})],
    ),
    (
        [{"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 2}'}],
        [ToolCallPart("c", "f", {"x": 2})],
    ),
    (
        [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "broken {"}],
        [ToolCallPart("c", "f", {"arguments": "broken {"})],
    ),
    ([{"type": "function_call_output", "call_id": "c", "output": "done"}], [ToolResultPart("c", "done")]),
    (
        [{"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}],
        [ToolResultPart("t", "no", is_error=True)],
    ),
    (
        [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"}, IMAGE]}],
        [ToolResultPart("t", "a\n[image/png, 2048 bytes]")],
    ),
    ([{"type": "tool_result", "tool_use_id": "t"}], [ToolResultPart("t", "")]),
    ([IMAGE], [AttachmentPart("image", "image/png", 2048)]),
    (
        [{"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PNG}"}}],
        [AttachmentPart("image", "image/jpeg", 2048)],
    ),
    (
        [{"type": "input_image", "image_url": "https://example.org/a.png"}],
        [AttachmentPart("https://example.org/a.png")],
    ),
    (
        [
            {
                "type": "document",
                "title": "lease",
                "source": {"type": "text", "media_type": "text/plain", "data": "rent"},
            }
        ],
        [AttachmentPart("lease", "text/plain", text="rent")],
    ),
    (
        [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}],
        [AttachmentPart("document", "application/pdf", 2048)],
    ),
    (
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}}],
        [AttachmentPart("a.pdf", "application/pdf", 2048)],
    ),
    ([{"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}], [AttachmentPart("audio", "wav", 2048)]),
]


@pytest.mark.parametrize(("content", "parts"), BLOCKS)
def test_content_in_every_shape(content: Any, parts: list[Part]) -> None:
    assert content_parts(content) == parts


def test_payloads_in_tool_input_are_dropped() -> None:
    (part,) = content_parts([{"type": "tool_use", "id": "t", "name": "w", "input": {"bytes": PNG, "n": [PNG]}}])
    assert isinstance(part, ToolCallPart)
    assert part.input == {"bytes": "[base64 data, 2048 bytes]", "n": ["[base64 data, 2048 bytes]"]}


def test_unknown_types_are_counted_or_refused() -> None:
    unknown: list[str] = []
    parts = content_parts([{"type": "hologram", "of": "a fox"}, {}, 3, "x"], unknown=unknown.append)
    assert parts == [TextPart('{"type": "hologram", "of": "a fox"}'), TextPart("3"), TextPart("x")]
    assert unknown == ["hologram", "(no type)", "int"]
    with pytest.raises(InvalidInput, match="'hologram' is not known"):
        content_parts([{"type": "hologram"}])


@pytest.mark.parametrize("content", [7, 1.5, True, {"answer": "a fox"}])
def test_content_of_unknown_shape_is_kept_as_text(content: Any) -> None:
    unknown: list[str] = []
    (part,) = message_draft({"role": "assistant", "content": content}, unknown=unknown.append).parts
    assert part == TextPart(json.dumps(content))
    assert len(unknown) == 1


def test_unknown_block_next_to_tool_results_is_tool_result() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": "t", "content": "done"}, {"type": "receipt", "total": 3}]
    draft = message_draft({"role": "user", "content": blocks}, unknown=lambda kind: None)
    assert draft.role == "tool"
    assert [part.text for part in draft.parts if isinstance(part, ToolResultPart)] == [
        "done", '{"type": "receipt", "total": 3}',
    ]  # fmt: skip


def test_payloads_in_what_is_unknown_are_dropped() -> None:
    (part,) = content_parts([{"type": "hologram", "data": PNG}], unknown=lambda kind: None)
    assert part == TextPart('{"type": "hologram", "data": "[base64 data, 2048 bytes]"}')


@pytest.mark.parametrize(
    ("message", "is_kept"),
    [
        ({"role": "wizard", "content": "a fox"}, True),
        ({"content": "a fox"}, True),
        ({"q": "a fox"}, False),
        ({"role": "user"}, False),
    ],
)
def test_importers_keep_message_that_api_refuses(message: dict[str, Any], is_kept: bool) -> None:
    told: list[bool] = []
    draft = kept_message(message, unknown=refuse_unknown, refused=lambda reason, *, kept: told.append(kept))
    assert told == [is_kept]
    assert ("a fox" in spoken_text(draft.parts)) == is_kept
    with pytest.raises(InvalidInput):
        message_draft(message)


def test_message_without_content_is_kept_as_json() -> None:
    unknown: list[str] = []
    draft = message_draft({"role": "assistant", "said": "a fox"}, unknown=unknown.append)
    assert draft.parts == (TextPart('{"said": "a fox"}'),)
    assert unknown == ["(no content)"]


@pytest.mark.parametrize("content", [3, True, 1.5])
def test_content_that_is_neither_text_nor_list(content: Any) -> None:
    with pytest.raises(InvalidInput, match="give a string or a list"):
        message_draft({"role": "user", "content": content})


@pytest.mark.parametrize(
    ("name", "role"),
    [("user", "user"), ("Human", "user"), ("developer", "system"), ("function", "tool"), (" assistant", "assistant")],
)
def test_role_names_are_normalised(name: str, role: str) -> None:
    assert message_draft({"role": name, "content": "x"}).role == role


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": "x"}, "has no role"),
        ({"role": "wizard", "content": "x"}, "unknown role 'wizard'"),
        ({"role": 3, "content": "x"}, "unknown role '3'"),
        ({"role": "user"}, "has no content"),
        ({"role": "tool", "tool_call_id": "c"}, "has no content"),
    ],
)
def test_messages_that_are_refused(message: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        message_draft(message)


def test_name_time_and_model() -> None:
    draft = message_draft({"role": "user", "content": "hi", "name": "Ana", "created_at": "2026-01-02T12:00:00Z"})
    assert (draft.name, draft.created_at) == ("Ana", datetime(2026, 1, 2, 12, tzinfo=UTC))
    draft = message_draft({"role": "assistant", "content": "hi", "model": "m", "metadata": {"timestamp": "bad"}})
    assert (draft.model, draft.created_at) == ("m", None)


def test_openai_tool_calls_and_tool_messages() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    draft = message_draft({"role": "assistant", "content": None, "reasoning_content": "think", "tool_calls": [call]})
    assert draft.parts == (ThinkingPart("think"), ToolCallPart("c", "f", {"x": 1}))
    old = message_draft({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}})
    assert old.parts == (ToolCallPart("", "f", {}),)
    answer = message_draft(
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": [{"type": "text", "text": "1"}]}
    )
    assert (answer.role, answer.name, answer.parts) == ("tool", "", (ToolResultPart("c", "1", name="f"),))


def test_call_in_content_and_tool_calls_is_read_once() -> None:
    block = {"type": "tool_call", "id": "c", "name": "f", "input": {}}
    draft = message_draft(
        {"role": "assistant", "content": [block], "tool_calls": [{"id": "c", "tool": "f", "arguments": {}}]}
    )
    assert draft.parts == (ToolCallPart("c", "f", {}),)


def test_user_message_of_results_only_is_tools() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    assert message_draft({"role": "user", "content": [result]}).role == "tool"
    assert message_draft({"role": "user", "content": [result, {"type": "text", "text": "and?"}]}).role == "user"


def test_items_of_responses_api() -> None:
    call = message_draft({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
    assert (call.role, call.parts) == ("assistant", (ToolCallPart("c", "f", {}),))
    answer = message_draft({"type": "function_call_output", "call_id": "c", "output": "1"})
    assert (answer.role, answer.parts) == ("tool", (ToolResultPart("c", "1"),))


def test_calls_and_results_of_endpoints_own_tools() -> None:
    call = message_draft({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "Lima"}})
    assert (call.role, call.parts) == ("assistant", (ToolCallPart("ws", "web_search", {"action": {"query": "Lima"}}),))
    answer = message_draft({"type": "shell_call_output", "id": "x", "call_id": "c", "output": [{"stdout": "a"}]})
    assert (answer.role, answer.parts) == ("tool", (ToolResultPart("c", '{"stdout": "a"}'),))
    listed = message_draft({"type": "tool_search_output", "call_id": "c", "tools": [{"name": "f"}]})
    assert listed.parts == (ToolResultPart("c", '{"tools": [{"name": "f"}]}'),)
    allowed = message_draft({"type": "mcp_approval_response", "approval_request_id": "r", "approve": True})
    assert allowed.parts == (ToolResultPart("r", '{"approve": true}'),)
    assert message_draft({"type": "item_reference", "id": "m"}).parts == ()
    shown = message_draft({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]})
    assert shown.parts == (ThinkingPart("Hm."),)


def test_spoken_answer_is_its_transcript_and_file() -> None:
    audio = {"id": "a", "data": PNG, "transcript": "It is sunny.", "expires_at": 1}
    draft = message_draft({"role": "assistant", "content": None, "audio": audio})
    assert draft.parts == (AttachmentPart("a", "", 2048), TextPart("It is sunny."))


@pytest.mark.parametrize("calls", ["weather", ["weather"], {"id": "c", "function": {"name": "weather"}}])
def test_calls_of_unknown_shape_are_kept(calls: object) -> None:
    draft = message_draft({"role": "assistant", "content": None, "tool_calls": calls}, unknown=lambda kind: None)
    assert "weather" in part_text(draft.parts[0])


def test_text_is_storable() -> None:
    assert content_parts("a\0b\ud800") == [TextPart("ab\ufffd")]
    assert content_parts("\0") == []


@pytest.mark.parametrize("kind", [["text"], {"a": 1}, None, 7])
def test_content_with_non_string_type_is_kept(kind: object) -> None:
    result = {"type": "tool_result", "content": [{"type": kind, "note": "warm"}]}
    [part] = content_parts([result])
    assert "warm" in part_text(part)
    draft = kept_message({"type": kind, "content": "warm"}, unknown=lambda _: None, refused=lambda *_, **__: None)
    assert "warm" in part_text(draft.parts[0])
