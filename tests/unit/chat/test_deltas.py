"""Putting a streamed completion together, whatever dialect the server speaks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.chat.deltas import MAX_CALLS, MAX_PARTS, CompletionDraft, MalformedChunk
from convmemory.conversations.messages.parts import ThinkingPart, ToolCallPart, part_text
from convmemory.core.endpoints.streams import MAX_REPLY_CHARS


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def call_piece(index: int = 0, **values: Any) -> dict[str, Any]:
    function = {name: values.pop(name) for name in ("name", "arguments") if name in values}
    return {"index": index, "function": function, **values}


def joined(pieces: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """Adjacent pieces of one kind as one."""
    found: list[tuple[bool, str]] = []
    for thinks, text in pieces:
        if found and found[-1][0] == thinks:
            found[-1] = (thinks, found[-1][1] + text)
        else:
            found.append((thinks, text))
    return found


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_thinking_in_text_comes_as_thinking_in_pieces_of_any_size(size: int) -> None:
    text = "<think>\nA newt? No, a toad.\n</think>\n\nA toad, in `<think>` or not."
    draft = CompletionDraft()
    events = [event for at in range(0, len(text), size) for event in draft.add(chunk(content=text[at : at + size]))]
    events += draft.add(chunk("stop"))
    told = joined([(event.name == "thinking", event.data["text"]) for event in events])
    assert told == [(True, "\nA newt? No, a toad.\n"), (False, "A toad, in `<think>` or not.")]
    assert [part.type for part in draft.spoken_parts] == ["thinking", "text"]


def test_reply_that_ends_while_model_thinks_has_thinking_alone() -> None:
    draft = CompletionDraft()
    draft.add(chunk(content="<think>A newt</th"))
    assert [(part.type, part_text(part)) for part in draft.spoken_parts] == [("thinking", "A newt</th")]


@given(st.lists(st.tuples(st.booleans(), st.text(min_size=1))))
def test_text_and_thinking_come_together_in_order(pieces: list[tuple[bool, str]]) -> None:
    draft = CompletionDraft()
    events = []
    for thinks, text in pieces:
        events += draft.add(chunk(**{"reasoning_content" if thinks else "content": text}))
    events += draft.add(chunk("stop"))
    expected = joined(pieces)
    # Text that may begin with a tag is held until more has come.
    assert joined([(event.name == "thinking", event.data["text"]) for event in events]) == expected
    found = [(isinstance(part, ThinkingPart), part_text(part)) for part in draft.spoken_parts]
    assert found == [(thinks, text) for thinks, text in expected if text.strip()]


@given(st.text(), st.integers(1, 9))
def test_arguments_are_put_together_whatever_their_pieces(text: str, size: int) -> None:
    arguments = json.dumps({"query": text})
    draft = CompletionDraft()
    draft.add(chunk(tool_calls=[call_piece(id="c1", name="search", arguments="")]))
    for at in range(0, len(arguments), size):
        draft.add(chunk(tool_calls=[call_piece(arguments=arguments[at : at + size])]))
    [call] = draft.finished_calls()
    assert call.part == ToolCallPart("c1", "search", {"query": text})
    assert call.error == ""


def test_calls_under_one_index_with_ids_of_their_own_are_several_calls() -> None:
    draft = CompletionDraft()
    for name in ("a", "b"):
        draft.add(chunk(tool_calls=[call_piece(id=f"id-{name}", name=name, arguments="{}")]))
    assert [call.part.name for call in draft.finished_calls()] == ["a", "b"]


def test_call_without_id_gets_one_and_arguments_may_be_object() -> None:
    draft = CompletionDraft(call_id_prefix="call_7")
    draft.add(chunk(tool_calls=[call_piece(name="a", arguments={"x": 1})]))
    [call] = draft.finished_calls()
    assert call.part == ToolCallPart("call_7_0", "a", {"x": 1})


@pytest.mark.parametrize(("arguments", "told"), [('{"a"', "not JSON"), ("[]", "object"), ("7", "object")])
def test_arguments_that_cannot_be_used_are_kept_with_reason(arguments: str, told: str) -> None:
    draft = CompletionDraft()
    draft.add(chunk(tool_calls=[call_piece(id="c", name="a", arguments=arguments)]))
    [call] = draft.finished_calls()
    assert call.part.input == {"arguments": arguments}
    assert told in call.error


def test_missing_arguments_are_none() -> None:
    draft = CompletionDraft()
    draft.add(chunk(tool_calls=[call_piece(id="c", name="a")]))
    assert draft.finished_calls()[0].part.input == {}


def test_chunks_without_content_yield_no_text() -> None:
    draft = CompletionDraft()
    assert draft.add({"choices": [], "usage": {}}) == []
    assert draft.add({"prompt_filter_results": []}) == []
    assert draft.add(chunk("stop")) == []
    assert draft.finish_reason == "stop"


@pytest.mark.parametrize(
    "value",
    [
        [1],
        "text",
        {"choices": {"a": 1}},
        {"choices": [1]},
        chunk(content=7),
        chunk(tool_calls={"a": 1}),
        chunk(tool_calls=["x"]),
        chunk(tool_calls=[{"index": "x"}]),
    ],
)
def test_malformed_chunk_is_refused(value: object) -> None:
    with pytest.raises(MalformedChunk):
        CompletionDraft().add(value)


def delta(**values: Any) -> dict[str, Any]:
    return {"choices": [{"delta": values}]}


def test_reply_is_cut_at_its_limit_of_characters() -> None:
    draft = CompletionDraft(chars=MAX_REPLY_CHARS - 5)
    assert [event.data["text"] for event in draft.add(delta(content="abcdefgh"))] == ["abcde"]
    assert "cut after 1,000,000 characters" in draft.cut_note
    assert draft.add(delta(content="more")) == []
    assert [part_text(part) for part in draft.spoken_parts] == ["abcde"]


def test_arguments_of_calls_count_as_characters() -> None:
    draft = CompletionDraft(chars=MAX_REPLY_CHARS - 5)
    draft.add(delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"a": 1}'}}]))
    assert "characters" in draft.cut_note
    assert draft.finished_calls() == []


def test_reply_is_cut_at_its_limit_of_calls_whatever_their_indexes() -> None:
    draft = CompletionDraft()
    calls = [{"index": 10**9 + at, "id": f"c{at}", "function": {"name": "t"}} for at in range(20_000)]
    draft.add(delta(content="Look."))
    draft.add(delta(tool_calls=calls))
    assert draft.cut_note == "The reply was cut after 100 tool calls, which is as many as one reply may have."
    assert (draft.call_count, draft.finished_calls(), len(draft.spoken_parts)) == (MAX_CALLS, [], 1)


def test_reply_is_cut_at_its_limit_of_parts() -> None:
    draft = CompletionDraft()
    for _ in range(MAX_PARTS):
        draft.add(delta(reasoning="a", content="b"))
    assert "changes between thinking and text" in draft.cut_note
    assert len(draft.spoken_parts) == MAX_PARTS
