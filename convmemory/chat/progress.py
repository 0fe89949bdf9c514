"""The progress of a reply: whole messages, and the one being received. Pure.

`Reply.partial` is its JSON form, so that another process can finish the reply of a dead one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from convmemory.chat.citations import link_citations, sources_in
from convmemory.chat.deltas import CompletionDraft
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import (
    ROLES,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    part_from_json,
    part_text,
    part_to_json,
)
from convmemory.conversations.messages.usage import usage_of

UNANSWERED = "The reply ended before this tool had answered."


@dataclass(slots=True)
class ReplyProgress:
    """Messages received so far: `messages` are complete; `current` is being received. `sources` are citable, by number.

    `chars` and `call_count` are those of the complete messages, which count towards the limits of the reply.
    """

    messages: list[MessageDraft] = field(default_factory=list)
    current: CompletionDraft | None = None
    chars: int = 0
    call_count: int = 0
    sources: dict[int, str] = field(default_factory=dict)

    def add_sources(self, texts: Iterable[str]) -> None:
        """Add the sources in tools' answers."""
        self.sources |= sources_in(texts)

    def received(self, *, now: datetime) -> list[MessageDraft]:
        """Return the messages worth keeping if the reply ended now, with a result for each tool call."""
        kept = list(self.messages)
        if self.current is not None and (parts := self.current.spoken_parts):
            usage = self.current.usage
            kept.append(MessageDraft("assistant", parts, model=self.current.model, created_at=now, usage=usage))
        every_part = [part for draft in kept for part in draft.parts]
        answered = {part.call_id for part in every_part if isinstance(part, ToolResultPart)}
        missing = (
            ToolResultPart(call_id=part.id, name=part.name, text=UNANSWERED, is_error=True)
            for part in every_part
            if isinstance(part, ToolCallPart) and part.id not in answered
        )
        return [
            *map(self._linked, kept),
            *(MessageDraft(role="tool", parts=(result,), created_at=now) for result in missing),
        ]

    def _linked(self, draft: MessageDraft) -> MessageDraft:
        """Return the message with links in place of the numbers that it cites."""
        parts = tuple(
            replace(part, text=link_citations(part.text, self.sources)) if isinstance(part, TextPart) else part
            for part in draft.parts
        )
        return replace(draft, parts=parts) if draft.role == "assistant" else draft


def draft_to_json(draft: MessageDraft) -> dict[str, Any]:
    """Return the contents of a reply's message as JSON values."""
    created_at = draft.created_at.isoformat() if draft.created_at else None
    parts = [part_to_json(part) for part in draft.parts]
    usage = draft.usage.to_json() if draft.usage else None
    return {"role": draft.role, "model": draft.model, "created_at": created_at, "parts": parts, "usage": usage}


def read_partial(values: Any) -> tuple[list[MessageDraft], bool]:
    """Return the readable messages of a `Reply.partial`, and whether those are all."""
    if not isinstance(values, list):
        return [], False
    drafts = [draft for value in values if (draft := _readable(value)) is not None]
    return drafts, len(drafts) == len(values)


def _readable(value: Any) -> MessageDraft | None:
    try:
        draft = draft_from_json(value)
        texts = [draft.model, *map(part_text, draft.parts)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return draft if draft.role in ROLES and all(isinstance(text, str) for text in texts) else None


def draft_from_json(value: Mapping[str, Any]) -> MessageDraft:
    """Return the message of a JSON value made by `draft_to_json`."""
    return MessageDraft(
        role=cast("Role", value["role"]),
        model=value["model"],
        created_at=datetime.fromisoformat(value["created_at"]) if value["created_at"] else None,
        parts=tuple(part_from_json(part) for part in value["parts"]),
        usage=usage_of(value.get("usage")),
    )
