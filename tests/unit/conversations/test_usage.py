"""Usages as servers, endpoints and transcripts write them, in one form."""

import json
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.codex import CodexImporter
from convmemory.conversations.messages.usage import MAX_TOKENS, Usage, usage_in_lines, usage_of


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        # Anthropic counts what it read from its cache apart from the input.
        (
            {
                "input_tokens": 8, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
                "output_tokens": 5, "cache_creation": {"ephemeral_5m_input_tokens": 20}, "service_tier": "standard",
            },
            Usage(128, 5, 100),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 2, 4)),
        ({"prompt_tokens": 128, "completion_tokens": 5, "cache_read_input_tokens": 100}, Usage(128, 5, 100)),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}, Usage(9, 2, 4)),
        ({"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2, "total_tokens": 11}, Usage(9, 2, 4)),
        ({"input": 9, "output": 2, "cached": 4, "thoughts": 3, "tool": 0, "total": 14}, Usage(9, 5, 4)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, Usage(9, 5)),
        ({"input": 1, "output": 2, "cache": {"read": 6, "write": 2}}, Usage(9, 2, 6)),
        ({"input": 1, "output": 2, "cacheRead": 6, "cacheWrite": 2}, Usage(9, 2, 6)),
        (Usage(9, 2, 4, "r").to_json(), Usage(9, 2, 4, "r")),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": True, "completion_tokens": "12"}, None),
        ({"prompt_tokens": -3, "completion_tokens": MAX_TOKENS + 1}, None),
        ({"model": "m"}, None),
        ([1], None),
    ],
)  # fmt: skip
def test_usage_of_each_server_has_one_form(reported: Any, usage: Usage | None) -> None:
    assert usage_of(reported) == usage


def line_of(**usage: int) -> bytes:
    return json.dumps({"type": "assistant", "message": {"id": "msg_1", "usage": usage}}).encode()


def test_last_line_of_answer_has_its_usage() -> None:
    lines = [line_of(input_tokens=3, output_tokens=1), line_of(input_tokens=3, output_tokens=44), b'{"usage": ']
    assert usage_in_lines(b"\n".join(lines)) == Usage(3, 44, 0, "msg_1")
    assert usage_in_lines(b'{"tokens": {"input": 1, "output": 2}}') == Usage(1, 2)
    assert usage_in_lines(b'{"response": {"id": "resp_1", "usage": {"input_tokens": 1}}}') == Usage(1, 0, 0, "resp_1")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"plain text", b'"usage"', b'{"usage": 3}', b"[" * 100_000 + b'"usage"', b'{"a": {"usage": {"input": 1}}}',
        b'{"message": {"content": "\\"usage\\": {\\"input\\": 1}"}}', b'\xff{"usage": {"input": 1}}',
    ],
)  # fmt: skip
def test_lines_without_usage_have_none(raw: bytes) -> None:
    assert usage_in_lines(raw) is None


def test_messages_of_one_codex_request_share_its_usage(tmp_path: Path) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"type": "response_item", "payload": payload}

    def counted(total: int, tokens: int) -> dict[str, Any]:
        info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": {"input_tokens": tokens}}
        payload = {"type": "token_count", "info": info if total else None}
        return {"timestamp": f"2026-05-01T10:00:0{total}Z", "type": "event_msg", "payload": payload}

    def says(text: str) -> dict[str, Any]:
        return item(type="message", role="assistant", content=[{"type": "output_text", "text": text}])

    call = item(type="function_call", name="shell", arguments="{}", call_id="c")
    result = item(type="function_call_output", call_id="c", output="ok")
    question = {"type": "event_msg", "payload": {"type": "user_message", "message": "go"}}
    records = [
        {"type": "session_meta", "payload": {"id": "s"}},
        *(question, counted(0, 0), says("I look."), call, result, counted(1, 70), counted(1, 70)),
        *(says("Done."), counted(2, 90), says("No count follows.")),
    ]
    path = tmp_path / "rollout-1.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    source, report = Source(path), FileReport(path=path.name)
    (draft,) = CodexImporter().parse(source, report)
    usages = [(message.role, message.reported_usage) for message in draft.messages]
    first = Usage(70, 0, 0, "2026-05-01T10:00:01Z 7")
    assert usages == [
        ("user", None), ("assistant", first), ("assistant", first), ("tool", None),
        ("assistant", Usage(90, 0, 0, "2026-05-01T10:00:02Z 10")), ("assistant", None),
    ]  # fmt: skip
