"""Assembles a streamed chat completion from chunks into parts, and the events that a reply sends. Pure.

Servers differ: reasoning comes in `reasoning_content` or `reasoning`, in the text within `<think>`, or in parts of the
content; some send whole tool calls at once, several under one index, without ids; some send chunks without choices, or
a whole message in place of deltas. Chunks that do not follow the protocol are refused, and a reply is cut at its
limits.

Source: https://platform.openai.com/docs/api-reference/chat/streaming
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Literal

from convmemory.conversations.messages.parts import Part, TextPart, ThinkingPart, ToolCallPart
from convmemory.conversations.messages.thinking import ThinkingSplitter
from convmemory.conversations.messages.usage import Usage, usage_of
from convmemory.core.endpoints.streams import MAX_REPLY_CHARS, NAME_CHARS, REPLY_CUT
from convmemory.core.text import json_storable

EventName = Literal[
    "message_started", "context", "text", "thinking", "tool_call", "tool_result", "turn", "done", "error", "title",
    "evidence", "sentence",
]  # fmt: skip
KEEP_ALIVE = b": still here\n\n"


# Wire format: https://html.spec.whatwg.org/multipage/server-sent-events.html
@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """One event of a reply; `data` are JSON values."""

    name: EventName
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        return self.name in ("error", "title") or (self.name == "done" and not self.data.get("title_follows"))


def encode_event(event: ReplyEvent) -> bytes:
    """Return the event in its wire format. JSON has no line breaks of its own, so one `data` line is enough."""
    data = json.dumps(json_storable(event.data), ensure_ascii=False, separators=(",", ":"))
    return f"event: {event.name}\ndata: {data}\n\n".encode()


REASONING_FIELDS = ("reasoning_content", "reasoning")
# Anthropic's API names the parts and no sum.
TOKEN_PARTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
MAX_CALLS = 100  # the limit of one reply, over all of its rounds
MAX_PARTS = 1_000  # changes between thinking and speaking
CALLS_CUT = "The reply was cut after {limit:,} tool calls, which is as many as one reply may have."
PARTS_CUT = "The reply was cut after {limit:,} changes between thinking and text."


class MalformedChunk(ValueError):
    """A chunk that does not have the form of a chat completion chunk."""


@dataclass(slots=True)
class CallDraft:
    """A tool call whose pieces are arriving."""

    id: str = ""
    name: str = ""
    arguments: StringIO = field(default_factory=StringIO)

    def finished(self) -> "FinishedCall":
        text = self.arguments.getvalue()
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

    `total_tokens` is the cost of the request, None if the server does not report it. `chars` and `call_count` start
    from the reply's earlier completions; when they, or the parts, reach the limit of a reply, `cut_note` says so for
    the reader, and no more is added.
    """

    def __init__(self, *, call_id_prefix: str = "call", chars: int = 0, call_count: int = 0) -> None:
        self.finish_reason = ""
        self.model = ""
        self.total_tokens: int | None = None
        self.usage: Usage | None = None
        self.chars = chars
        self.call_count = call_count
        self.cut_note = ""
        self._splitter = ThinkingSplitter()
        self._spoken: list[tuple[type[TextPart] | type[ThinkingPart], StringIO]] = []
        self._calls: list[CallDraft] = []
        self._call_at: dict[int, CallDraft] = {}
        self._call_id_prefix = call_id_prefix

    def cut(self, note: str) -> None:
        """End the completion here, for the reason in `note`."""
        self.cut_note = self.cut_note or note

    def add(self, chunk: object) -> list[ReplyEvent]:
        """Add one chunk; return the events for listeners. Raises: MalformedChunk."""
        chunk_values = _mapping(chunk)
        self.model = self.model or _text(chunk_values.get("model"))[:NAME_CHARS]
        self.total_tokens = usage_in(chunk_values) or self.total_tokens
        self.usage = usage_of(chunk_values.get("usage")) or self.usage
        choices = chunk_values.get("choices")
        if not choices or self.cut_note:
            return []  # a chunk with usage, or with a content filter's verdict
        if not isinstance(choices, list):
            raise MalformedChunk("`choices` is not a list")
        choice = _mapping(choices[0])
        self.finish_reason = _text(choice.get("finish_reason"))[:NAME_CHARS] or self.finish_reason
        # A whole message after deltas repeats them.
        whole = {} if self._spoken or self._calls else choice.get("message")
        delta = choice.get("delta") or whole or {}
        return list(self._events_of_delta(_mapping(delta)))

    def _events_of_delta(self, delta: Mapping[str, Any]) -> Iterator[ReplyEvent]:
        reasoning = next((text for name in REASONING_FIELDS if (text := _text(delta.get(name)))), "")
        pieces = [*self._splitter.finish(), (True, reasoning)] if reasoning else []
        for is_thinking, text in _content_pieces(delta.get("content") or delta.get("refusal")):
            pieces += [*self._splitter.finish(), (True, text)] if is_thinking else self._splitter.feed(text)
        if self.finish_reason:
            pieces += self._splitter.finish()
        for is_thinking, text in pieces:
            if taken := self._speak(ThinkingPart if is_thinking else TextPart, text):
                yield ReplyEvent("thinking" if is_thinking else "text", {"text": taken})
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            raise MalformedChunk("`tool_calls` is not a list")
        for piece in calls:
            self._add_call(_mapping(piece))

    def _speak(self, kind: type[TextPart] | type[ThinkingPart], text: str) -> str:
        """Add the text as far as there is room; return the added text."""
        if not text or self.cut_note:
            return ""
        if not self._spoken or self._spoken[-1][0] is not kind:
            if len(self._spoken) == MAX_PARTS:
                self.cut(PARTS_CUT.format(limit=MAX_PARTS))
                return ""
            self._spoken.append((kind, StringIO()))
        taken = self._fitting(text)
        self._spoken[-1][1].write(taken)
        return taken

    def _fitting(self, text: str) -> str:
        """Cut the text to the room left in the reply, and use up that room."""
        room = MAX_REPLY_CHARS - self.chars
        if len(text) > room:
            self.cut(REPLY_CUT.format(limit=MAX_REPLY_CHARS))
            text = text[:room]
        self.chars += len(text)
        return text

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        if self.cut_note:
            return
        function = _mapping(piece.get("function") or {})
        call_id, name = _text(piece.get("id"))[:NAME_CHARS], _text(function.get("name"))[:NAME_CHARS]
        index = piece.get("index", 0)
        if not isinstance(index, int):
            raise MalformedChunk("a tool call's `index` is not a number")
        call = self._call_at.get(index)
        if call is None or (call_id and name and call.id != call_id):
            if self.call_count == MAX_CALLS:
                self.cut(CALLS_CUT.format(limit=MAX_CALLS))
                return
            self.call_count += 1
            call = self._call_at[index] = CallDraft(id=call_id or f"{self._call_id_prefix}_{len(self._calls)}")
            self._calls.append(call)
        call.name = call.name or name
        arguments = function.get("arguments")
        text = json.dumps(arguments) if isinstance(arguments, dict) else _text(arguments)
        call.arguments.write(self._fitting(text))

    @property
    def received_texts(self) -> list[str]:
        """Return all text that the model has written, to count its tokens."""
        calls = (text for call in self._calls for text in (call.name, call.arguments.getvalue()))
        return [*(pieces.getvalue() for _, pieces in self._spoken), *calls]

    @property
    def spoken_parts(self) -> tuple[Part, ...]:
        """Return thinking and text received so far; calls count only once they are complete."""
        spoken = [(kind, pieces.getvalue()) for kind, pieces in self._spoken]
        is_thinking, rest = self._splitter.rest
        kind = ThinkingPart if is_thinking else TextPart
        if rest and spoken and spoken[-1][0] is kind:
            spoken[-1] = (kind, spoken[-1][1] + rest)
        elif rest:
            spoken.append((kind, rest))
        return tuple(kind(text) for kind, text in spoken if text.strip())

    def finished_calls(self) -> list[FinishedCall]:
        """Return the calls of the ended completion; none if it was cut, because the last call is incomplete."""
        return [] if self.cut_note else [call.finished() for call in self._calls]


def _content_pieces(content: object) -> Iterator[tuple[bool, str]]:
    """Yield pieces `(is_thinking, text)` of a content: a text, or a list of parts, as Mistral's reasoning models send.

    Raises: MalformedChunk.
    """
    if not isinstance(content, list):
        yield False, _text(content)
        return
    for part in content:
        if isinstance(part, str):
            yield False, part
            continue
        thought = _mapping(part).get("thinking")
        if isinstance(thought, list):
            yield True, "".join(_text(_mapping(piece).get("text")) for piece in thought)
        else:
            yield (True, _text(thought)) if thought else (False, _text(part.get("text")))


def usage_in(answer: Mapping[str, Any]) -> int | None:
    """Return the tokens of question and answer together, if the server reports them."""
    usage = answer.get("usage")
    if not isinstance(usage, Mapping):
        return None
    parts = [usage.get(name) for name in TOKEN_PARTS]
    total = usage.get("total_tokens", sum(part for part in parts if type(part) is int))
    return total if type(total) is int and total > 0 else None


def usage_of_body(body: bytes) -> int | None:
    """Return the same of the JSON body of an answer; None for any other body."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return usage_in(answer) if isinstance(answer, Mapping) else None


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
