"""Messages of Goose, in the format of its database and its older files.

Source: block/goose `crates/goose/src/conversation/message.rs`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.blocks import (
    Block,
    attachment_block,
    call_block,
    record_messages,
    result_block,
    text_block,
    thinking_block,
)  # fmt: skip
from convmemory.conversations.importers.values import mapping_of, text_of, time_of
from convmemory.conversations.parts import Role

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_SILENT = frozenset(
    {"redactedThinking", "toolConfirmationRequest", "actionRequired", "systemNotification", "contextLengthExceeded"}
)  # fmt: skip


def goose_messages(
    value: Mapping[str, Any], *, key: str, raw: bytes, model: str, report: FileReport
) -> Iterator[MessageDraft]:
    """Yield the messages of one record `{role, created, content, metadata}`; invisible ones become system messages."""
    role = _ROLES.get(text_of(value.get("role")).lower())
    content = value.get("content")
    if role is None or not isinstance(content, list):
        report.skip(key, "a message without a known role or content")
        return
    hidden = mapping_of(value.get("metadata")).get("userVisible") is False
    yield from record_messages(
        role="system" if hidden else role,
        blocks=(block for item in map(mapping_of, content) for block in _blocks(item, report)),
        key=key,
        unknown=report.unknown,
        created_at=time_of(value.get("created")),
        model=model,
        injected=hidden,
        raw=raw,
    )


def _blocks(item: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    kind = text_of(item.get("type"))
    if kind == "text":
        yield text_block(item.get("text"))
    elif kind in ("thinking", "reasoning"):
        yield thinking_block(text_of(item.get("thinking")) or text_of(item.get("text")))
    elif kind in ("toolRequest", "frontendToolRequest"):
        # Newer versions wrap the call as `{status, value}`.
        outcome = mapping_of(item.get("toolCall"))
        call = mapping_of(outcome["value"]) if "value" in outcome else outcome
        yield call_block(id=item.get("id"), name=call.get("name"), input=call.get("arguments"))
    elif kind == "toolResponse":
        yield _result(item)
    elif kind == "image":
        yield attachment_block("image", item.get("mimeType"))
    elif kind not in _SILENT:
        report.unknown(kind or "(no type)")


def _result(item: Mapping[str, Any]) -> Block:
    outcome = mapping_of(item.get("toolResult"))
    value = outcome.get("value")
    content = value.get("content") if isinstance(value, Mapping) else value
    failed = outcome.get("status") == "error" or mapping_of(value).get("isError") is True
    return result_block(id=item.get("id"), content=content or outcome.get("error") or "", is_error=failed)
