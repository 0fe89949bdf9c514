"""Assembles a streamed chat completion, piece by piece. Pure: chunks in, events and parts out.

Servers differ: reasoning comes in `reasoning_content` or `reasoning`; some send whole tool calls at once, several
under one index, without ids; some send chunks without choices. Chunks that do not follow the protocol are refused.
Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from convmemory.chat.events import Event
from convmemory.conversations.parts import Part, TextPart, ThinkingPart, ToolCallPart

REASONING_FIELDS = ("reasoning_content", "reasoning")


class MalformedChunk(ValueError):
    """A chunk that does not have the form of a chat completion chunk."""


@dataclass(slots=True)
class CallDraft:
    """A tool call whose pieces are arriving. `error` says why its arguments cannot be used."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def finished(self) -> "FinishedCall":
        text = "".join(self.arguments)
        try:
            value = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            return FinishedCall(self._part({"arguments": text}), f"The arguments are not JSON ({error}).")
        if not isinstance(value, dict):
            return FinishedCall(self._part({"arguments": text}), "The arguments are not a JSON object.")
        return FinishedCall(self._part(value))

    def _part(self, values: Mapping[str, Any]) -> ToolCallPart:
        return ToolCallPart(id=self.id, name=self.name, input=values)


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A complete tool call; `error` is empty if its arguments can be used."""

    part: ToolCallPart
    error: str = ""


class CompletionDraft:
    """One streamed completion. `finish_reason` is "" until the server has announced the end.

    `total_tokens` is the cost of the request, None if the server does not report it.
    """

    def __init__(self, *, call_id_prefix: str = "call") -> None:
        self.finish_reason = ""
        self.model = ""
        self.total_tokens: int | None = None
        self._spoken: list[tuple[type[TextPart] | type[ThinkingPart], list[str]]] = []
        self._calls: list[CallDraft] = []
        self._call_at: dict[int, CallDraft] = {}
        self._call_id_prefix = call_id_prefix

    def add(self, chunk: object) -> list[Event]:
        """Add one chunk; returns the events for listeners. Raises: MalformedChunk."""
        chunk_values = _mapping(chunk)
        self.model = self.model or _text(chunk_values.get("model"))
        self.total_tokens = usage_in(chunk_values) or self.total_tokens
        choices = chunk_values.get("choices")
        if not choices:
            return []  # usage, or a content filter's verdict
        if not isinstance(choices, list):
            raise MalformedChunk("`choices` is not a list")
        choice = _mapping(choices[0])
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason
        delta = choice.get("delta") or {}
        return list(self._events_of_delta(_mapping(delta)))

    def _events_of_delta(self, delta: Mapping[str, Any]) -> Iterator[Event]:
        reasoning = next((text for name in REASONING_FIELDS if (text := _text(delta.get(name)))), "")
        if reasoning:
            self._speak(ThinkingPart, reasoning)
            yield Event("thinking", {"text": reasoning})
        said = _text(delta.get("content")) or _text(delta.get("refusal"))
        if said:
            self._speak(TextPart, said)
            yield Event("text", {"text": said})
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            raise MalformedChunk("`tool_calls` is not a list")
        for piece in calls:
            self._add_call(_mapping(piece))

    def _speak(self, kind: type[TextPart] | type[ThinkingPart], text: str) -> None:
        if not self._spoken or self._spoken[-1][0] is not kind:
            self._spoken.append((kind, []))
        self._spoken[-1][1].append(text)

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = _mapping(piece.get("function") or {})
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        index = piece.get("index", 0)
        if not isinstance(index, int):
            raise MalformedChunk("a tool call's `index` is not a number")
        call = self._call_at.get(index)
        if call is None or (call_id and name and call.id != call_id):
            call = self._call_at[index] = CallDraft(id=call_id or f"{self._call_id_prefix}_{len(self._calls)}")
            self._calls.append(call)
        call.name = call.name or name
        arguments = function.get("arguments")
        call.arguments.append(json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments))

    @property
    def received_texts(self) -> list[str]:
        """Everything that the model has written, to count its tokens."""
        calls = (piece for call in self._calls for piece in (call.name, *call.arguments))
        return [*(piece for _, pieces in self._spoken for piece in pieces), *calls]

    @property
    def spoken_parts(self) -> tuple[Part, ...]:
        """Thinking and text received so far; calls count only once they are complete."""
        return tuple(part for kind, pieces in self._spoken if (part := kind("".join(pieces))).text.strip())

    def finished_calls(self) -> list[FinishedCall]:
        """The calls of the completion, which has ended."""
        return [call.finished() for call in self._calls]


def usage_in(answer: Mapping[str, Any]) -> int | None:
    """The tokens of question and answer together, if the server reports them."""
    usage = answer.get("usage")
    total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
    return total if type(total) is int and total > 0 else None


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MalformedChunk(f"{type(value).__name__} where an object belongs")
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedChunk(f"{type(value).__name__} where text belongs")
    return value
