"""The messages of an export in parts of turns, as blocks: the same blocks that the conversation page shows.

A turn of any length takes the memory of one part.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.messages.outcomes import NO_OUTCOME, Outcome, Spoken, outcome_of
from convmemory.conversations.messages.parts import Part, part_to_json
from convmemory.conversations.pages.markdown_html import PageWork
from convmemory.conversations.pages.rendering import MessageBlock, fold_steps, message_kind, view_messages
from convmemory.conversations.pages.windows import WINDOW_CHARS, WINDOW_MESSAGES


@dataclass(frozen=True, slots=True)
class TurnPart:
    """Consecutive messages of one turn; `outcome` is the turn's at its end, of the exported messages alone."""

    messages: Sequence[ExportedMessage]
    turn_before: int | None
    outcome: Outcome = NO_OUTCOME

    def parts(self) -> Mapping[tuple[int, int], Part]:
        """Return the parts of the messages by position and index."""
        return {
            (message.row.position, index): part for message in self.messages for index, part in enumerate(message.parts)
        }

    def blocks(self, *, work: PageWork, person: str = "") -> list[MessageBlock]:
        """Return the messages as the page shows them, uncut; `person` is the name of the user."""
        rows = [message.row for message in self.messages]
        for message in self.messages:
            row = message.row
            row.parts = [part_to_json(part) for part in message.parts]  # without keys
            if person and not row.name and message_kind(row, message.parts) == "user":
                row.name = person
        last = next((row for row in reversed(rows) if not row.superseded), None)
        marks = {
            (message.row.conversation_id, message.row.turn_number or 0): message.mark
            for message in self.messages
            if message.mark
        }
        outcomes = {last.pk: self.outcome} if last else MappingProxyType({})
        return fold_steps(
            view_messages(rows, turn_before=self.turn_before, marks=marks, outcomes=outcomes, whole=True, work=work)
        )


@dataclass(slots=True)
class TurnParts:
    """Collects messages into parts: a turn, or as much of a long one as a page would show."""

    _messages: list[ExportedMessage] = field(default_factory=list)
    _chars: int = 0
    _turn_before: int | None = None
    _outcome: Outcome = NO_OUTCOME

    def take(self, message: ExportedMessage) -> Iterator[TurnPart]:
        """Take the next message; yield what is complete before it."""
        if self._messages and message.row.turn_number != self._messages[-1].row.turn_number:
            yield self._part(ends_turn=True)
        is_full = len(self._messages) >= WINDOW_MESSAGES or self._chars >= WINDOW_CHARS
        if is_full and message.row.role == "assistant":  # results stand with their calls
            yield self._part(ends_turn=False)
        self._messages.append(message)
        self._chars += sum(len(str(part)) for part in message.parts)

    def rest(self) -> Iterator[TurnPart]:
        """Yield the end of the last turn."""
        if self._messages:
            yield self._part(ends_turn=True)
        self._turn_before = None

    def _part(self, *, ends_turn: bool) -> TurnPart:
        current = [message for message in self._messages if not message.row.superseded]
        spoken = (Spoken(message.row.role, message.parts) for message in current)
        self._outcome = self._outcome.then(outcome_of(spoken))
        is_shown = ends_turn and self._messages[-1].row.turn_number is not None
        part = TurnPart(tuple(self._messages), self._turn_before, self._outcome if is_shown else NO_OUTCOME)
        self._outcome = NO_OUTCOME if ends_turn else self._outcome
        self._turn_before = current[-1].row.turn_number if current else self._turn_before
        self._messages, self._chars = [], 0
        return part
