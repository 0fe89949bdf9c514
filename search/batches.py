"""Cutting the turns of a conversation into batches that take about a second each, however long the turns are.

Reads messages. A worker looks at the clock between two batches, so they bound how long it keeps others waiting.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from convmemory.conversations.models import Conversation
from convmemory.conversations.parts import Part, ToolResultPart, part_text
from convmemory.conversations.reading import StoredMessage, messages_of_turns
from memory.splitting import TOOL_CHARS

TURNS_PER_BATCH = 64
BATCH_CHARS = 16_000  # of what is embedded; a turn that has more is a batch by itself


@dataclass(frozen=True, slots=True)
class TurnBatch:
    """The messages of turns `first` to `last`, in order."""

    first: int
    last: int
    messages: list[StoredMessage]


def batches_of_turns(conversation: Conversation, first: int) -> Iterator[TurnBatch]:
    """The turns from `first` on, in batches; messages are read 64 turns at a time, and only when they are wanted."""
    for start in range(first, conversation.turn_count, TURNS_PER_BATCH):
        end = min(start + TURNS_PER_BATCH, conversation.turn_count) - 1
        yield from _cut(start, end, messages_of_turns(conversation, start, end))


def _cut(first: int, last: int, messages: list[StoredMessage]) -> Iterator[TurnBatch]:
    held: list[StoredMessage] = []
    chars = 0
    for number, turn in groupby(messages, key=lambda message: message.turn_number or 0):
        of_turn = list(turn)
        size = sum(map(embedded_chars, of_turn))
        if held and chars + size > BATCH_CHARS:
            yield TurnBatch(first, number - 1, held)
            first, held, chars = number, [], 0
        held += of_turn
        chars += size
    yield TurnBatch(first, last, held)


def embedded_chars(message: StoredMessage) -> int:
    """About how many characters of a message are embedded: of a tool's output a head and a tail alone."""
    return sum(map(_part_chars, message.parts))


def _part_chars(part: Part) -> int:
    size = len(part_text(part))
    return min(size, TOOL_CHARS) if isinstance(part, ToolResultPart) else size
