"""Messages and parts of OpenCode, in the format of its exports, its JSON files and its first-generation databases.

Source: anomalyco/opencode `packages/opencode/src/session/message-v2.ts`.
"""

from collections.abc import Iterable, Iterator, Mapping
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
from convmemory.conversations.importers.whole_json import dumped
from convmemory.conversations.parts import Role

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_SILENT = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "compaction", "agent", "subtask", "retry"}
)  # fmt: skip


def stored_messages(
    info: Mapping[str, Any], parts: Iterable[Mapping[str, Any]], *, key: str, report: FileReport
) -> Iterator[MessageDraft]:
    """Yield the messages of one stored message: its text and calls, and the results of tools."""
    role = ROLES.get(text_of(info.get("role")))
    listed = list(parts)
    if role is None:
        report.skip(f"message {key}", f"unknown role {text_of(info.get('role'))[:40]!r}")
        return
    if role == "user" and not listed:
        listed = [{"type": "text", "text": mapping_of(info.get("summary")).get("body")}]
    typed = [part for part in listed if part.get("synthetic") is not True]
    yield from record_messages(
        role=role,
        blocks=(block for part in listed for block in part_blocks(part, report)),
        key=key,
        unknown=report.unknown,
        created_at=time_of(mapping_of(info.get("time")).get("created")),
        model=model_of(info),
        injected=role == "user" and not any(text_of(part.get("text")).strip() for part in typed),
        raw=dumped({"info": info, "parts": listed}),
    )


def part_blocks(part: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    """Yield one part of a message."""
    kind = text_of(part.get("type"))
    if kind == "text" and part.get("ignored") is not True:
        yield text_block(part.get("text"))
    elif kind == "reasoning":
        yield thinking_block(part.get("text"))
    elif kind == "tool":
        yield from tool_blocks(part, id=part.get("callID"), name=part.get("tool"))
    elif kind == "file":
        yield attachment_block(part.get("filename") or part.get("url"), part.get("mime"))
    elif kind not in _SILENT and kind != "text":
        report.unknown(kind or "(no type)")


def tool_blocks(part: Mapping[str, Any], *, id: object, name: object) -> Iterator[Block]:
    """Yield a call with its result, if it has one."""
    state = mapping_of(part.get("state"))
    yield call_block(id=id, name=name, input=state.get("input"))
    error = state.get("error")
    failed = state.get("status") == "error"
    said = error.get("message") if isinstance(error, dict) else error
    answers = (state.get("output"), said, state.get("content"), state.get("result"))
    answer = next((value for value in answers if value not in (None, "", [], {})), None)
    if answer is not None:
        yield result_block(id=id, name=name, content=answer, is_error=failed)


def model_of(info: Mapping[str, Any]) -> str:
    model = mapping_of(info.get("model"))
    return text_of(info.get("modelID")) or text_of(model.get("modelID")) or text_of(model.get("id"))


def is_child(value: object) -> bool:
    """Return whether a session names its parent; a redacted export names none."""
    return bool(text_of(value)) and value != "REDACTED"
