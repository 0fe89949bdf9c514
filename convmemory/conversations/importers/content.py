"""Message content in OpenAI and Anthropic formats, read into typed parts.

Used by every importer and by the HTTP API. Content is a string or a list of blocks; base64 payloads are dropped, and an
attachment or a short marker names them. Content in another format is stored as text, and `unknown` is called with its
type.

Source: https://platform.openai.com/docs/api-reference, https://docs.anthropic.com/en/api/messages
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from convmemory.conversations.importers.attachments import ATTACHMENT_TYPES, attachment_of
from convmemory.conversations.importers.lines import has_too_many_values
from convmemory.conversations.importers.values import (
    clean,
    key_of,
    mapping_of,
    marker,
    text_of,
    time_of,
    value_without_payloads,
    without_payloads,
)
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import Part, Role, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.conversations.messages.thinking import thinking_apart
from convmemory.core.errors import InvalidInput

OnUnknown = Callable[[str], None]

AnyBlock = Mapping[str, Any] | str
"""A block in any form, also one of a foreign file, or a text."""

ROLES_BY_NAME: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
CALL_TYPES = frozenset({"tool_call", "function_call", "function", "custom", "custom_tool_call"})
RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
# Items of the Responses API: calls of the endpoint's own tools end in `_call`, their results in `_output`.
CALL_ITEMS = frozenset({"mcp_list_tools", "mcp_approval_request"})
RESULT_ITEMS = frozenset({"mcp_approval_response"})
ITEM_NAMES = frozenset({"type", "id", "call_id", "approval_request_id", "status"})
EMPTY_TYPES = frozenset({"redacted_thinking", "fallback", "item_reference", "compaction"})  # without readable content
TIME_KEYS = ("created_at", "timestamp", "create_time", "created", "time")
MESSAGE_KEYS = frozenset(
    {"role", "name", "id", "uuid", "model", "turn", "metadata", "type", "tool_call_id", *TIME_KEYS}
)


def refuse_unknown(kind: str) -> None:
    """Raise InvalidInput for an unknown type, for callers that want an error instead of a count."""
    raise InvalidInput(
        f"Content of type {kind!r} is not known: give a string or a list of text, images, documents, tool calls and "
        "results."
    )


def message_draft(value: Mapping[str, Any], *, unknown: OnUnknown = refuse_unknown) -> MessageDraft:
    """Return one message `{role, content, name?, created_at?, tool_calls?, tool_call_id?}` of either format.

    An item of the Responses API has a type instead of a role.

    Raises: InvalidInput if the role is missing or unknown, or the content is neither text nor blocks.
    """
    role = role_of(value)
    parts = message_parts(value, role=role, unknown=unknown)
    if role == "user" and parts and all(isinstance(part, ToolResultPart) for part in parts):
        role = "tool"
    if role == "assistant":
        parts = thinking_apart(parts)
    return MessageDraft(
        role=role,
        parts=parts,
        name=text_of(value.get("name")) if role != "tool" else "",
        created_at=first_time(value),
        model=text_of(value.get("model")) if role == "assistant" else "",
    )


class OnRefused(Protocol):
    """Receives the reason why a message is invalid; `kept` if it is stored as text."""

    def __call__(self, reason: str, *, kept: bool) -> None: ...


def kept_message(value: Mapping[str, Any], *, unknown: OnUnknown, refused: OnRefused) -> MessageDraft:
    """Return `message_draft` for importers: a refused message becomes a system message with its whole
    content as text. An object without a content is no message: it becomes one without parts.
    """
    try:
        return message_draft(value, unknown=unknown)
    except InvalidInput as error:
        parts = kept_as_text(value) if isinstance(value.get("content"), (str, list, tuple)) else []
        refused(str(error), kept=bool(parts))
        return MessageDraft(role="system", parts=tuple(parts), created_at=first_time(value))


def role_of(value: Mapping[str, Any]) -> Role:
    """Return the role of a message. Raises: InvalidInput."""
    role_value = value.get("role")
    kind = text_of(value.get("type")) if role_value is None else ""
    if kind.endswith("_call") or kind in CALL_ITEMS or kind == "reasoning" or kind in EMPTY_TYPES:
        return "assistant"
    if kind.endswith("_output") or kind in RESULT_ITEMS:
        return "tool"
    role = ROLES_BY_NAME.get(role_value.strip().lower()) if isinstance(role_value, str) else None
    if role is None:
        what = "has no role" if role_value is None else f"has the unknown role {str(role_value)[:40]!r}"
        raise InvalidInput(f"A message {what}: give one of user, assistant, tool, system.")
    return role


def first_time(value: Mapping[str, Any]) -> datetime | None:
    """Return the time of the message, under any of the usual names, or None."""
    records = (value, mapping_of(value.get("metadata")))
    times = (time_of(record[key]) for record in records for key in TIME_KEYS if key in record)
    return next((time for time in times if time), None)


def message_parts(value: Mapping[str, Any], *, role: Role, unknown: OnUnknown) -> tuple[Part, ...]:
    """Return all parts of a message: reasoning, content and the separate tool calls."""
    if value.get("role") is None:
        return tuple(content_parts([value], unknown=unknown))  # an item of the Responses API
    content = value.get("content")
    if role == "tool" and not _has_results(content):
        if not {"content", "output"} & value.keys():
            raise InvalidInput("A tool message has no content: give what the tool answered.")
        return (tool_result(value),)
    parts: list[Part] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(value.get(key), str):
            parts.extend(_thinking(value[key]))
            break
    parts.extend(content_parts(content, unknown=unknown))
    if isinstance(value.get("refusal"), str):
        parts.extend(_text(value["refusal"]))
    if isinstance(value.get("audio"), Mapping):
        parts.append(attachment_of(value, "audio"))
        parts.extend(_text(text_of(value["audio"].get("transcript"))))
    # A call can be present both as a block and in `tool_calls`.
    ids = {part.id for part in parts if isinstance(part, ToolCallPart) and part.id}
    parts.extend(part for part in _calls_of(value, unknown) if not isinstance(part, ToolCallPart) or part.id not in ids)
    if content is None and not parts and "content" not in value:
        # The text under unknown keys of a message without content.
        others = {key: item for key, item in value.items() if key not in MESSAGE_KEYS}
        if others:
            unknown("(no content)")
        parts.extend(kept_as_text(others))
    if content is None and not parts and "content" not in value:
        raise InvalidInput("A message has no content: give a string, a list of parts, or tool_calls.")
    return tuple(parts)


def _calls_of(value: Mapping[str, Any], unknown: OnUnknown) -> Iterator[Part]:
    """Yield the calls that a message has apart from its content."""
    listed = value.get("tool_calls") or []
    for item in [*(listed if isinstance(listed, list) else [listed]), *filter(None, [value.get("function_call")])]:
        if isinstance(item, Mapping):
            yield tool_call(item)
        else:
            unknown("tool_calls")
            yield from kept_as_text(item)


def content_parts(content: object, *, unknown: OnUnknown = refuse_unknown) -> list[Part]:
    """Return the parts of a message's content: None, a string, one block or a list of blocks and strings.

    Any other value is stored as text; among the results of tools, as a tool's output. Raises: the errors of `unknown`.
    """
    if content is None:
        return []
    blocks = content if isinstance(content, (list, tuple)) else [content]
    has_results = _has_results(content)
    parts: list[Part] = []
    for block in blocks:
        new_parts = (
            _text(block) if isinstance(block, str) else block_parts(block) if isinstance(block, Mapping) else None
        )
        if new_parts is None:
            unknown(_kind_of(block) if isinstance(block, Mapping) else type(block).__name__)
            kept = kept_as_text(block)
            new_parts = [ToolResultPart("", part.text) for part in kept] if has_results else kept
        parts.extend(new_parts)
    return parts


def kept_as_text(value: object) -> list[TextPart]:
    """Return a value of unknown format as JSON text; nothing if it is empty."""
    if value is None or value in ("", [], {}):
        return []
    text = (
        value if isinstance(value, str) else json.dumps(value_without_payloads(value), ensure_ascii=False, default=str)
    )
    return [TextPart(clean(without_payloads(text)))]


def _kind_of(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind is None and isinstance(block.get("text"), str):
        return "text"
    return kind if isinstance(kind, str) else "(no type)"


def block_parts(block: Mapping[str, Any]) -> Sequence[Part] | None:
    """Return the parts of one block: usually one, none if it has no content to store; None for a new type."""
    kind = _kind_of(block)
    if kind in TEXT_TYPES:
        return _text(_text_value(block, kind))
    if kind in ("thinking", "reasoning"):
        return _thinking(_reasoning_text(block))
    if kind in CALL_TYPES or kind.endswith("tool_use"):
        return [tool_call(block)]
    if kind in RESULT_TYPES or kind.endswith("tool_result"):
        return [tool_result(block)]
    if kind in ATTACHMENT_TYPES:
        return [attachment_of(block, kind)]
    if kind.endswith("_call") or kind in CALL_ITEMS:
        # A call of one of the endpoint's own tools, such as its search of the web.
        arguments = {name: value for name, value in block.items() if name not in ITEM_NAMES}
        identity = text_of(block.get("call_id")) or text_of(block.get("id"))
        return [ToolCallPart(key_of(identity), kind.removesuffix("_call"), value_without_payloads(arguments))]
    if kind.endswith("_output") or kind in RESULT_ITEMS:
        # The result of such a call, whose id some results have as theirs.
        ids = (text_of(block.get(name)) for name in ("call_id", "approval_request_id", "id"))
        others = {name: value for name, value in block.items() if name not in ITEM_NAMES}
        return [ToolResultPart(key_of(next(filter(None, ids), "")), result_text(block.get("output", others)))]
    return [] if kind in EMPTY_TYPES else None


def tool_call(block: Mapping[str, Any]) -> ToolCallPart:
    """Return a call in any of its formats: tool_use, tool_call, function_call, `tool_calls[]` entries."""
    inner = mapping_of(block.get("function")) or mapping_of(block.get("custom")) or block
    arguments: object = next((inner[key] for key in ("input", "arguments") if key in inner), None)
    name = next((text for text in (text_of(inner.get(key)) for key in ("name", "tool")) if text), "")
    return ToolCallPart(
        id=key_of(text_of(block.get("call_id")) or text_of(block.get("id"))),
        name=name,
        input=value_without_payloads(_arguments(arguments)),
    )


def tool_result(block: Mapping[str, Any]) -> ToolResultPart:
    """Return a result in any of its formats; its content as one text."""
    names = ("tool_use_id", "tool_call_id", "call_id")
    return ToolResultPart(
        call_id=key_of(next((text for text in (text_of(block.get(name)) for name in names) if text), "")),
        text=result_text(block["content"] if "content" in block else block.get("output")),
        name=text_of(block.get("name")),
        is_error=block.get("is_error") is True,
    )


def result_text(content: object) -> str:
    """Return a tool's result as text: strings and text blocks joined, a marker for anything binary."""
    if isinstance(content, str):
        return clean(without_payloads(content))
    if content is None:
        return ""
    if not isinstance(content, (list, tuple)):
        content = [content]
    return "\n".join(text for text in map(_result_piece, content) if text)


def _result_piece(item: object) -> str:
    if isinstance(item, str):
        return clean(without_payloads(item))
    if isinstance(item, Mapping):
        kind = text_of(item.get("type"))
        if kind in TEXT_TYPES:
            return clean(without_payloads(_text_value(item, kind)))
        if kind in ATTACHMENT_TYPES:
            part = attachment_of(item, kind)
            return part.text or marker(part.media_type or part.name, part.size_bytes)
    return clean(json.dumps(value_without_payloads(item), ensure_ascii=False, default=str))


def _has_results(content: object) -> bool:
    """Return whether a tool message contains result blocks of its own."""
    blocks: Iterable[object] = content if isinstance(content, (list, tuple)) else ()
    return any(isinstance(block, Mapping) and str(block.get("type")).endswith("tool_result") for block in blocks)


def _arguments(value: object) -> Mapping[str, Any]:
    """Return parameters as an object, from an object or a JSON string of one."""
    if isinstance(value, str):
        if has_too_many_values(value):
            return {"arguments": value}
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return {"arguments": value}
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {"arguments": value}


def _text_value(block: Mapping[str, Any], kind: str) -> str:
    text = block.get("text") if "text" in block else block.get(kind)
    if isinstance(text, Mapping):
        text = text.get("value")
    return text if isinstance(text, str) else ""


def _reasoning_text(block: Mapping[str, Any]) -> str:
    for key in ("thinking", "text", "reasoning"):
        if isinstance(block.get(key), str):
            return str(block[key])
    lists = (block.get(key) for key in ("summary", "content"))
    items = (item for listed in lists if isinstance(listed, list) for item in listed)
    return "\n\n".join(text_of(mapping_of(item).get("text")) for item in items)


def _text(text: str) -> list[Part]:
    text = clean(without_payloads(text))
    return [TextPart(text)] if text.strip() else []


def _thinking(text: str) -> list[Part]:
    text = clean(without_payloads(text))
    return [ThinkingPart(text)] if text.strip() else []


class Block(dict[str, Any]):
    """A block in the form that `block_parts` reads, made from a coding agent's own format."""

    @classmethod
    def text(cls, text: object) -> "Block":
        return cls(type="text", text=text)

    @classmethod
    def thinking(cls, text: object) -> "Block":
        return cls(type="thinking", thinking=text)

    @classmethod
    def call(cls, *, id: object, name: object, input: object) -> "Block":
        return cls(type="tool_use", id=id, name=name, input=input)

    @classmethod
    def result(cls, *, id: object, content: object, name: object = "", is_error: bool = False) -> "Block":
        return cls(type="tool_result", tool_use_id=id, name=name, content=content, is_error=is_error)

    @classmethod
    def attachment(cls, name: object, media_type: object = "", text: object = "") -> "Block":
        return cls(type="file", file={"filename": name, "mime_type": media_type, "content": text})


def listed_blocks(content: object) -> list[AnyBlock]:
    """Return a message's content as a list of blocks."""
    listed = content if isinstance(content, list) else [content]
    return [block for block in listed if isinstance(block, (str, Mapping))]


def record_messages(
    *,
    role: Role,
    blocks: Iterable[AnyBlock],
    key: str,
    unknown: OnUnknown,
    created_at: datetime | None = None,
    model: str = "",
    injected: bool = False,
    raw: bytes = b"",
) -> Iterator[MessageDraft]:
    """Yield the messages of one record: its texts and calls and, separately, the results of tools.

    Many agents keep a call and its result in one record; here these become two messages, as in every other format.
    A user's record has results of earlier calls, an assistant's record results of its own.
    """
    parts: list[Part] = content_parts(list(blocks), unknown=unknown)
    if role == "assistant":
        parts = list(thinking_apart(parts))
    results = tuple(part for part in parts if isinstance(part, ToolResultPart))
    spoken = tuple(part for part in parts if not isinstance(part, ToolResultPart))
    drafts = []
    if spoken:
        drafts.append(
            MessageDraft(
                role=role,
                parts=spoken,
                created_at=created_at,
                model=model if role == "assistant" else "",
                source_key=key_of(key),
                injected=injected,
                raw=raw,
            )
        )
    if results:
        answers_key = key_of(f"{key}:results" if spoken else key)
        answers = MessageDraft(
            role="tool", parts=results, created_at=created_at, source_key=answers_key, raw=b"" if spoken else raw
        )
        # A user's results answer earlier calls, so that they precede the text.
        drafts.insert(0 if role == "user" else len(drafts), answers)
    yield from drafts
