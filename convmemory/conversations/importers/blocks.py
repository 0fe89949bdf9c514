"""Turns the records of coding agents into messages: their own formats become the blocks that `content.py` reads.

Many agents keep a tool call and its result in one record; here these become two messages, as in every other format.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.importers.content import OnUnknown, content_parts
from convmemory.conversations.importers.values import key_of
from convmemory.conversations.parts import Part, Role, ToolResultPart

Block = Mapping[str, Any]


def text_block(text: object) -> Block:
    return {"type": "text", "text": text}


def thinking_block(text: object) -> Block:
    return {"type": "thinking", "thinking": text}


def call_block(*, id: object, name: object, input: object) -> Block:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result_block(*, id: object, content: object, name: object = "", is_error: bool = False) -> Block:
    return {"type": "tool_result", "tool_use_id": id, "name": name, "content": content, "is_error": is_error}


def attachment_block(name: object, media_type: object = "") -> Block:
    return {"type": "file", "file": {"filename": name, "mime_type": media_type}}


def listed_blocks(content: object) -> list[Block | str]:
    """Return a message's content as a list of blocks."""
    listed = content if isinstance(content, list) else [content]
    return [block for block in listed if isinstance(block, (str, Mapping))]


def record_messages(
    *,
    role: Role,
    blocks: Iterable[Block | str],
    key: str,
    unknown: OnUnknown,
    created_at: datetime | None = None,
    model: str = "",
    injected: bool = False,
    raw: bytes = b"",
) -> Iterator[MessageDraft]:
    """Yield the messages of one record: its texts and calls and, separately, the results of tools.

    A user's record has results of earlier calls, an assistant's record results of its own.
    """
    parts: list[Part] = content_parts(list(blocks), unknown=unknown)
    results = tuple(part for part in parts if isinstance(part, ToolResultPart))
    said = tuple(part for part in parts if not isinstance(part, ToolResultPart))
    drafts = []
    if said:
        drafts.append(
            MessageDraft(
                role=role,
                parts=said,
                created_at=created_at,
                model=model if role == "assistant" else "",
                source_key=key_of(key),
                injected=injected,
                raw=raw,
            )
        )
    if results:
        answers_key = key_of(f"{key}:results" if said else key)
        answers = MessageDraft(
            role="tool", parts=results, created_at=created_at, source_key=answers_key, raw=b"" if said else raw
        )
        # A user's results answer earlier calls, so that they precede the text.
        drafts.insert(0 if role == "user" else len(drafts), answers)
    yield from drafts
