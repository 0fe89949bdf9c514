"""Which tool result answers which tool call, and where a list of messages may be cut without parting them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from convmemory.context.values import ContextMessage
from convmemory.conversations.parts import ToolCallPart, ToolResultPart


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a message, by their indexes."""

    message: int
    part: int


def answers(messages: Sequence[ContextMessage]) -> dict[Place, Place]:
    """The place of the result of each call that has one.

    Sources reuse ids, or have none: a result answers the earliest open call with its id in the latest message
    that has such calls.
    """
    found: dict[Place, Place] = {}
    open_calls: dict[str, list[Place]] = {}
    for index, message in enumerate(messages):
        for part_index, part in enumerate(message.parts):
            place = Place(index, part_index)
            if isinstance(part, ToolCallPart) and message.role == "assistant":
                same = [call for call in open_calls.get(part.id, []) if call.message == index]
                open_calls[part.id] = [*same, place]
            elif isinstance(part, ToolResultPart) and open_calls.get(part.call_id):
                found[open_calls[part.call_id].pop(0)] = place
    return found


def units(messages: Sequence[ContextMessage]) -> list[range]:
    """The messages as runs of indexes that stay or go as one: no call is parted from its result by a cut between two.

    Every message is in exactly one run; runs are in order.
    """
    cuts = set(range(len(messages) + 1))
    for call, result in answers(messages).items():
        cuts.difference_update(range(call.message + 1, result.message + 1))
    return [range(start, end) for start, end in pairwise(sorted(cuts))]


def first_of_unit_after(messages: Sequence[ContextMessage], position: int) -> Iterator[ContextMessage]:
    """The messages after `position`, beginning with the whole unit that holds the first of them."""
    for unit in units(messages):
        if any(messages[index].position > position for index in unit):
            yield from (messages[index] for index in unit)
