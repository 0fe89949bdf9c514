"""Renders the messages of a range as text for a summariser, in pieces that fit a model.

Only `load_range` reads the database. Thinking is left out and tool output is cut: a summary covers what was said and
done.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    speaker_of,
    tool_call_text,
)
from convmemory.conversations.models import Conversation
from convmemory.core.text import CONTINUED, cut, one_line, quoted, visible

if TYPE_CHECKING:
    from convmemory.conversations.messages.parts import Role

RESULT_CHARS = 600
ATTACHMENT_CHARS = 2_000
NAME_CHARS = 80
FENCE = "transcript"
"""The tag of the fence in which a model receives a transcript."""


@dataclass(frozen=True, slots=True)
class RangeMessage:
    """A message of the range."""

    message_id: int
    position: int
    role: "Role"
    is_real_user: bool
    name: str
    parts: tuple[Part, ...]


def load_range(conversation: Conversation, first: int, last: int) -> list[RangeMessage]:
    """Return the messages at these positions, in order. One query; the caller has checked the owner."""
    rows = conversation.messages.filter(position__range=(first, last), superseded=False).order_by("position")
    return [
        RangeMessage(row.pk, row.position, cast("Role", row.role), row.is_real_user, row.name, row.typed_parts)
        for row in rows
    ]


def message_text(message: RangeMessage) -> str:
    """Return `[position] Speaker: text`, or an empty string if the message has no text.

    No line of the text can imitate such a label.
    """
    text = "\n".join(_part_lines(message.parts))
    speaker = one_line(visible(speaker_of(message.role, message.name)).replace(":", " "), NAME_CHARS)
    return f"[{message.position}] {speaker}: {text}" if text else ""


def _part_lines(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the text of each part, quoted, with a mark before text that could imitate a label.

    The first part follows a label, and parts that are not prose begin with text written here.
    """
    is_first = True
    for part in parts:
        if isinstance(part, TextPart):
            text = part.text.strip()
        elif isinstance(part, ToolCallPart):
            text = f"(calls {tool_call_text(part)})"
        elif isinstance(part, ToolResultPart):
            text = f"({'error' if part.is_error else 'result'}: {cut(part.text.strip(), RESULT_CHARS)})"
        elif isinstance(part, AttachmentPart):
            text = f"(attachment {part.name}: {cut(part.text.strip(), ATTACHMENT_CHARS)})"
        else:
            text = ""
        if text:
            begins_freely = isinstance(part, TextPart) and not is_first
            yield (CONTINUED if begins_freely else "") + quoted(text, FENCE)
            is_first = False


def pieces(texts: Iterable[str], *, max_tokens: int, count_tokens: Callable[[str], int]) -> Iterator[str]:
    """Join the texts into pieces of at most `max_tokens` tokens; a longer text is split."""
    piece: list[str] = []
    room = max_tokens
    for text in texts:
        for fragment in _fragments(text, max_tokens, count_tokens):
            tokens = count_tokens(fragment) + 2
            if piece and tokens > room:
                yield "\n\n".join(piece)
                piece, room = [], max_tokens
            piece.append(fragment)
            room -= tokens
    if piece:
        yield "\n\n".join(piece)


def _fragments(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> Iterator[str]:
    """Halve the text between words until each half fits. Only the first half may begin like a message's label."""
    if not text:
        return
    if len(text) <= 1 or count_tokens(text) + 2 <= max_tokens:
        yield text
        return
    middle = len(text) // 2
    # Not at the last character: the second half would be empty.
    space = text.find(" ", middle, min(middle + 200, len(text) - 1))
    at = space + 1 if space > 0 else middle
    # A second half must not begin like "[12] Speaker:", which is how the model recognises a message.
    if text[at] == "[" and text[at + 1 : at + 2].isdigit():
        at += 1
    yield from _fragments(text[:at], max_tokens, count_tokens)
    yield from _fragments(text[at:], max_tokens, count_tokens)
