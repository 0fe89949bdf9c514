"""Partial replies: the messages that are kept, and their form in the database."""

from datetime import UTC, datetime
from typing import Any

import pytest

from convmemory.chat.deltas import CompletionDraft, ReplyEvent, encode_event
from convmemory.chat.progress import ReplyProgress, draft_from_json, draft_to_json, read_partial
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CALLS = MessageDraft(
    role="assistant",
    parts=(TextPart("Let me see."), ToolCallPart("a", "search", {"query": "x"}), ToolCallPart("b", "y")),
)
RESULT = MessageDraft(role="tool", parts=(ToolResultPart("a", "found"),))


def test_every_kept_call_has_result() -> None:
    kept = ReplyProgress(messages=[CALLS, RESULT]).received(now=NOW)
    assert kept[:2] == [CALLS, RESULT]
    [missing] = kept[2].parts
    assert isinstance(missing, ToolResultPart)
    assert (missing.call_id, missing.is_error) == ("b", True)


def test_partial_completion_is_kept_without_unfinished_calls() -> None:
    draft = CompletionDraft()
    draft.add({"choices": [{"delta": {"content": "Once"}}]})
    draft.add({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "x"}}]}}]})
    [kept] = ReplyProgress(current=draft).received(now=NOW)
    assert kept.parts == (TextPart("Once"),)


def test_empty_completion_is_not_kept() -> None:
    assert ReplyProgress(current=CompletionDraft()).received(now=NOW) == []


def test_messages_survive_their_form_in_database() -> None:
    for draft in (CALLS, RESULT, MessageDraft(role="assistant", parts=(TextPart("x"),), model="m", created_at=NOW)):
        assert draft_from_json(draft_to_json(draft)) == draft


@pytest.mark.parametrize(
    "damaged",
    [None, "text", 7, [], {}, {"role": "assistant"},
     {"role": "wizard", "model": "", "created_at": None, "parts": []},
     {"role": "assistant", "model": None, "created_at": None, "parts": []},
     {"role": "assistant", "model": "", "created_at": "yesterday", "parts": []},
     {"role": "assistant", "model": "", "created_at": None, "parts": 3},
     {"role": "assistant", "model": "", "created_at": None, "parts": [{"type": "dream", "text": "x"}]},
     {"role": "assistant", "model": "", "created_at": None, "parts": [{"type": "text"}]},
     {"role": "assistant", "model": "", "created_at": None, "parts": [{"type": "text", "text": 5}]},
     {"role": "assistant", "model": "", "created_at": None,
      "parts": [{"type": "tool_call", "id": "a", "name": "x", "input": []}]}],
)  # fmt: skip
def test_damaged_messages_of_stored_reply_are_left_out(damaged: Any) -> None:
    assert read_partial([draft_to_json(CALLS), damaged, draft_to_json(RESULT)]) == ([CALLS, RESULT], False)


def test_stored_reply_that_is_no_list_is_not_read() -> None:
    assert read_partial([draft_to_json(CALLS), draft_to_json(RESULT)]) == ([CALLS, RESULT], True)
    assert read_partial([]) == ([], True)
    for damaged in (None, "x", {"a": 1}):
        assert read_partial(damaged) == ([], False)


def test_event_is_one_line_of_data_whatever_it_holds() -> None:
    wire = encode_event(ReplyEvent("text", {"text": "a\n\ndata: b\r\x00\ud800 é"}))
    assert wire.startswith(b"event: text\ndata: ")
    assert wire.endswith(b"\n\n")
    assert wire.count(b"\n") == 3
    assert b"\r" not in wire
