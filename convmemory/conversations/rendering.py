"""Stored messages as the conversation page shows them: speakers, beginnings of turns, and views of the parts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from django.utils.translation import gettext_lazy, pgettext_lazy

from convmemory.conversations.highlighting import Passage
from convmemory.conversations.models import Message
from convmemory.conversations.part_views import PartView, view_part
from convmemory.conversations.parts import (
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from convmemory.conversations.rendering_work import Work

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MessageKind = Literal["user", "assistant", "tool", "system", "injected"]
_SPEAKERS: Mapping[MessageKind, "StrOrPromise"] = {
    "user": pgettext_lazy("speaker", "You"),
    "assistant": gettext_lazy("Assistant"),
    "tool": gettext_lazy("Tool output"),
    "system": gettext_lazy("System"),
    "injected": gettext_lazy("Added by the agent"),
}


@dataclass(frozen=True, slots=True)
class Note:
    """A remark of the product below a message."""

    text: str
    is_warning: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class MessageView:
    """One message as the page shows it. `opens_turn`: the first of its turn; `headed`: the speaker has changed."""

    message_id: int
    position: int
    kind: MessageKind
    speaker: str
    model: str
    turn: int | None
    opens_turn: bool
    headed: bool
    is_target: bool
    created_at: datetime | None
    parts: tuple[PartView, ...]
    notes: Sequence[Note] = ()
    superseded: bool = False

    @property
    def has_actions(self) -> bool:
        """True if it can be copied and linked to, unlike tool output."""
        return bool(self.parts) and self.kind in ("user", "assistant")


def view_messages(
    messages: Iterable[Message],
    *,
    turn_before: int | None = None,
    target: int | None = None,
    passage: Passage | None = None,
    notes: Mapping[int, Sequence[Note]] = MappingProxyType({}),
) -> list[MessageView]:
    """Return messages in order, for the page. `turn_before` is the turn of the message before the first one."""
    views: list[MessageView] = []
    tools: dict[str, str] = {}
    work = Work()
    for message in messages:
        parts = message.typed_parts
        tools |= {part.id: part.name for part in parts if isinstance(part, ToolCallPart)}
        turn = message.turn_number
        kind = message_kind(message, parts)
        speaker = speaker_name(message, kind)
        opens_turn = turn is not None and turn != turn_before
        passage_here = passage if passage and passage.message_id == message.pk else None
        views.append(
            MessageView(
                message_id=message.pk,
                position=message.position,
                kind=kind,
                speaker=speaker,
                model=message.model,
                turn=turn,
                superseded=message.superseded,
                opens_turn=opens_turn,
                headed=opens_turn or not _continues(kind, speaker, views),
                is_target=turn is not None and turn == target,
                created_at=message.created_at,
                parts=_view_parts(parts, tools, passage_here, work),
                notes=notes.get(message.pk, ()),
            )
        )
        if not message.superseded:
            turn_before = turn
    return views


def _view_parts(
    parts: Sequence[Part], tools: Mapping[str, str], passage: Passage | None, work: Work
) -> tuple[PartView, ...]:
    held = {passage.part_index: passage.span} if passage else {}
    return tuple(
        view_part(part, index, tools=tools, passage=held.get(index), work=work) for index, part in enumerate(parts)
    )


def message_kind(message: Message, parts: Sequence[Part]) -> MessageKind:
    """Return the kind of message that a reader sees: tool output and injected text also have the role user."""
    if message.role == Message.Role.ASSISTANT:
        return "assistant"
    if message.role == Message.Role.SYSTEM:
        return "system"
    if message.role == Message.Role.TOOL or any(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    has_text = any(isinstance(part, TextPart) for part in parts)
    return "injected" if has_text and not message.is_real_user else "user"


def speaker_name(message: Message, kind: MessageKind) -> str:
    """Return the message's speaker, for people."""
    return message.name or str(_SPEAKERS[kind])


def _continues(kind: MessageKind, speaker: str, views: Sequence[MessageView]) -> bool:
    """Return whether the message needs no heading: tool output, or the assistant continuing."""
    if kind == "tool":
        return bool(views)
    last = next((view for view in reversed(views) if view.kind != "tool"), None)
    return kind == "assistant" and last is not None and (last.kind, last.speaker) == (kind, speaker)
