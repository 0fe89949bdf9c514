"""Converts messages for the index: turns become items, messages elements, and message parts element parts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from convmemory.conversations.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_text,
    speaker_of,
)
from convmemory.conversations.reading import StoredMessage
from convmemory.core.text import cut
from search.sources import Element, ElementPart, ItemText, Kind
from search.vectors.splitting import PassageSpan, split_parts

HEADING_CHARS = 300


def items_of(messages: Iterable[StoredMessage]) -> list[ItemText]:
    """Return the turns of the messages; `messages` are in order."""
    return [_item(number, list(turn)) for number, turn in groupby(messages, key=lambda message: message.turn_number)]


def _item(number: int, messages: Sequence[StoredMessage]) -> ItemText:
    own = [message for message in messages if message.has_turn] or messages
    question = next((m for m in own if m.is_real_user), own[0])
    said = (text for m in own if m.is_real_user or m is question for text in _texts(m.parts))
    return ItemText(
        number=number,
        opening_id=question.message_id,
        heading=cut("\n".join(said), HEADING_CHARS),
        created_at=next((m.created_at for m in own if m.created_at), None),
        elements=tuple(element_of(message) for message in messages),
    )


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    yield from (part.text for part in parts if isinstance(part, TextPart) and part.text.strip())


def element_of(message: StoredMessage) -> Element:
    """Return a message as the index reads it, without text from a harness (reminders).

    A message without a turn contributes to no turn's vector and to no turn's rank; a system message without a turn is a
    system prompt.
    """
    is_spoken = message.is_real_user or message.role == "assistant"
    said: Kind | None = "user" if message.is_real_user else "assistant" if is_spoken else None
    if message.role == "system" and not message.has_turn:
        said = "system"
    elif said and message.has_turns_beside:
        said = "outside"
    parts = _parts(message.parts, said)
    return Element(
        element_id=message.message_id,
        item_number=message.turn_number,
        parts=tuple(parts) if message.has_turn else tuple(replace(part, in_vector=False) for part in parts),
        speaker=speaker_of(message.role, message.name),
        name=message.name if is_spoken else "",
        digest=message.content_hash,
    )


def element_parts(parts: Iterable[Part], *, is_real_user: bool, is_assistant: bool) -> tuple[ElementPart, ...]:
    """Return the parts of one message that are indexed."""
    said: Kind | None = "user" if is_real_user else "assistant" if is_assistant else None
    return tuple(_parts(parts, said))


def _parts(parts: Iterable[Part], said: Kind | None) -> Iterator[ElementPart]:
    for index, part in enumerate(parts):
        kind = _kind(part, said)
        if kind is not None:
            label = part.name if isinstance(part, AttachmentPart) else ""
            in_vector = said is not None and isinstance(part, (TextPart, ToolCallPart))
            yield ElementPart(index, kind, part_text(part), label, in_vector)


def _kind(part: Part, said: Kind | None) -> Kind | None:
    if isinstance(part, ThinkingPart):
        return "thinking"
    if isinstance(part, ToolCallPart):
        return "call"
    if isinstance(part, ToolResultPart):
        return "tool"
    return said


def split_message(parts: Iterable[Part], *, is_real_user: bool, is_assistant: bool) -> list[PassageSpan]:
    """Return the passages of one message, in order. Text from a harness (reminders) has none."""
    return split_parts(element_parts(parts, is_real_user=is_real_user, is_assistant=is_assistant))
