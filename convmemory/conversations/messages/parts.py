"""The typed parts of a message, as pure values, their JSON form, and the compression of source lines.

Text in parts is untrusted; `to_json` removes what PostgreSQL cannot store.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from convmemory.core.text import cut, json_storable, recalled_spans, without_recalled

Role = Literal["user", "assistant", "tool", "system"]
ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "system")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text of a person or a model, usually Markdown."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A model's reasoning."""

    text: str
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call of a tool: its name and parameters."""

    id: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The output of a tool, as text."""

    call_id: str
    text: str
    name: str = ""
    is_error: bool = False
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class AttachmentPart:
    """A file or image that came with the message; its bytes are not stored, extracted text may be."""

    name: str
    media_type: str = ""
    size_bytes: int = 0
    text: str = ""
    type: Literal["attachment"] = "attachment"


PARAMETER_CHARS = 250

Part = TextPart | ThinkingPart | ToolCallPart | ToolResultPart | AttachmentPart
PART_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "thinking": ThinkingPart,
    "tool_call": ToolCallPart,
    "tool_result": ToolResultPart,
    "attachment": AttachmentPart,
}


def part_to_json(part: Part) -> dict[str, Any]:
    """Return the part as a JSON object with its `type` first; empty optional fields are left out."""
    values = {name: getattr(part, name) for name in part.__slots__ if name != "type"}
    kept = {name: json_storable(value) for name, value in values.items() if value or name in {"text", "name", "id"}}
    return {"type": part.type, **kept}


def part_from_json(value: Mapping[str, Any]) -> Part:
    """Return the inverse of `part_to_json`. Raises: KeyError on an unknown type."""
    arguments = {name: item for name, item in value.items() if name != "type"}
    if value["type"] == "tool_result":
        arguments.setdefault("call_id", "")
    return PART_TYPES[value["type"]](**arguments)


def spoken_text(parts: Iterable[Part]) -> str:
    """Return the text parts joined by blank lines, without thinking, calls, results and recalled text."""
    texts = (said_text(part) for part in parts if isinstance(part, TextPart))
    return "\n\n".join(text for text in texts if text.strip())


def said_text(part: TextPart) -> str:
    """Return the text without recalled text and the white space that this leaves around it."""
    return without_recalled(part.text).strip("\n") if recalled_spans(part.text) else part.text


def value_text(value: Any) -> str:
    """Return a value of a tool's parameters as text: a string as it is, else its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def tool_call_text(call: ToolCallPart) -> str:
    """Return `name key:value ...` with each value cut at 250 characters."""
    return " ".join(
        [call.name, *(f"{key}:{cut(value_text(value), PARAMETER_CHARS)}" for key, value in call.input.items())]
    )


def part_text(part: Part) -> str:
    """Return the part as one text, to which the offsets of passages refer."""
    return tool_call_text(part) if isinstance(part, ToolCallPart) else part.text


def part_size(part: Part) -> int:
    """Return the approximate number of characters in the part."""
    if isinstance(part, ToolCallPart):
        return sum(len(value) for value in part.input.values() if isinstance(value, str))
    return len(part.text)


def content_metadata(parts: Iterable[Part]) -> dict[str, Any]:
    """Return the kinds of content in a message, with the approximate number of characters of each."""
    characters: dict[str, int] = {}
    for part in parts:
        characters[part.type] = characters.get(part.type, 0) + part_size(part)
    return {
        "has_thinking": "thinking" in characters,
        "has_tool_calls": "tool_call" in characters,
        "characters": characters,
    }


def speaker_of(role: Role, name: str) -> str:
    """Return the speaker's name in embedded text."""
    return name or {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}[role]


MAX_RAW_BYTES = 256 * 1024**2  # of one message's source lines, unpacked


def pack_lines(lines: bytes) -> bytes:
    """Return source lines in their stored form."""
    return zlib.compress(lines, 3) if lines else b""


def unpack_lines(data: bytes) -> bytes | None:
    """Return source lines from their stored form; `data` itself if it is not compressed, None if they are too long."""
    unpacker = zlib.decompressobj()
    try:
        lines = unpacker.decompress(data, MAX_RAW_BYTES)
    except zlib.error:
        return data
    return None if unpacker.unconsumed_tail else lines
