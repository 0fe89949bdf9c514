"""Which turn each message belongs to, and the order of messages imported again. Pure: values in, numbers out.

A turn is a real user message and everything until the next real user message, with at least one assistant response. A
user message that was cut off before any response joins the next one; a turn without a response has no number yet.
Superseded messages belong to no turn, at any position. Numbers start at 0 and are never skipped.

Source: the glossary in docs/adr/0003-turn-definition.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from convmemory.conversations.messages.parts import Part, Role, TextPart
from convmemory.core.text import without_recalled


@dataclass(frozen=True, slots=True)
class TurnMessage:
    """The facts about a message that determine its turn."""

    role: Role
    is_real_user: bool
    superseded: bool = False


def is_real_user_message(role: Role, parts: Iterable[Part], *, injected: bool = False) -> bool:
    """Return whether a person wrote this: role user, non-blank text, not inserted by a harness or by our recall."""
    if role != "user" or injected:
        return False
    return any(isinstance(part, TextPart) and without_recalled(part.text).strip() for part in parts)


class TurnCounter:
    """Numbers messages batch by batch, in order; the next question opens turn `first_number`."""

    def __init__(self, first_number: int = 0) -> None:
        self._number = first_number - 1
        self._opened = self._answered = False
        self._is_final = True

    def number(self, messages: Iterable[TurnMessage]) -> list[int | None]:
        """Return the number of each of the next messages; None if its turn is not answered by the end of this batch."""
        numbers: list[int | None] = []
        opened_at = 0
        self._is_final = self._is_final and (self._answered or not self._opened)
        for index, message in enumerate(messages):
            if message.superseded:
                numbers.append(None)
                continue
            if message.is_real_user and (not self._opened or self._answered):
                self._number += 1
                self._opened, self._answered, opened_at = True, False, index
            elif message.role == "assistant" and self._opened:
                self._answered = True
            numbers.append(self._number if self._opened else None)
        if self._opened and not self._answered:
            numbers[opened_at:] = [None] * (len(numbers) - opened_at)
        return numbers

    @property
    def last_opened(self) -> int:
        """Return the number of the last turn that was opened, answered or not."""
        return self._number

    @property
    def turn_count(self) -> int | None:
        """Return the number of turns so far; None if a turn that one batch opened was answered in a later one.

        The messages of that turn have to be numbered again.
        """
        is_open = self._opened and not self._answered
        return self._number + 1 - is_open if self._is_final else None


def number_turns(messages: Iterable[TurnMessage], *, first_number: int = 0) -> list[int | None]:
    """Return the turn number of each message, in order, or None if it has none (yet).

    `messages` starts at the beginning of the conversation, or at the real user message that opens turn `first_number`.
    """
    return TurnCounter(first_number).number(messages)


def merge_order(stored: list[int], incoming: list[int]) -> list[int]:
    """Return the incoming order, with stored messages that the source dropped after their predecessors."""
    kept = set(incoming)
    # Stored messages that the source dropped, by the kept message before them.
    followers: dict[int | None, list[int]] = {}
    anchor: int | None = None
    for pk in stored:
        if pk in kept:
            anchor = pk
        else:
            followers.setdefault(anchor, []).append(pk)
    order = list(followers.get(None, []))
    for pk in incoming:
        order.append(pk)
        order.extend(followers.get(pk, []))
    return order
