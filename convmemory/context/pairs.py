"""Which tool result answers which tool call, and which summary represents which messages. Pure."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from convmemory.context.values import ContextMessage, PositionRange, SummaryText, SummaryUse
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart


@dataclass(frozen=True, slots=True)
class PartPlace:
    """The place of a part: the indexes of its message and of the part in it."""

    message: int
    part: int


def answers(messages: Sequence[ContextMessage]) -> dict[PartPlace, PartPlace]:
    """Return the place of the result of each call that has one.

    Sources reuse ids, or have none. A result therefore answers the earliest open call with its id in the latest message
    with such calls.
    """
    results: dict[PartPlace, PartPlace] = {}
    open_calls: dict[str, deque[PartPlace]] = {}
    for index, message in enumerate(messages):
        for part_index, part in enumerate(message.parts):
            position = PartPlace(index, part_index)
            if isinstance(part, ToolCallPart) and message.role == "assistant":
                same = open_calls.get(part.id)
                if not same or same[-1].message != index:
                    same = open_calls[part.id] = deque()
                same.append(position)
            elif isinstance(part, ToolResultPart) and open_calls.get(part.call_id):
                results[open_calls[part.call_id].popleft()] = position
    return results


def units(messages: Sequence[ContextMessage]) -> list[range]:
    """Return runs of message indexes that stay or go together, so that no call is separated from its result.

    Each message is in exactly one run; runs are in order.
    """
    # The index of the last message that answers a call of this message.
    answered_at = [0] * len(messages)
    for call, result in answers(messages).items():
        answered_at[call.message] = max(answered_at[call.message], result.message)
    runs: list[range] = []
    start = reach = 0
    for index, answered in enumerate(answered_at):
        reach = max(reach, answered)
        if reach <= index:
            runs.append(range(start, index + 1))
            start = index + 1
    return runs


def chain_of(summaries: Sequence[SummaryText], *, last_position: int) -> tuple[SummaryUse, ...]:
    """Return the summaries to use up to a position, in the order of the messages they represent.

    `summaries` are given newest first. If two summaries cover the same message, the later one represents it; a summary
    that represents no message is not used.
    """
    taken: list[PositionRange] = []
    uses: list[SummaryUse] = []
    for summary in summaries:
        first, last = (summary.from_position, min(summary.to_position, last_position))
        left: list[PositionRange] = []
        for taken_first, taken_last in taken:
            if taken_first > first:
                left.append((first, min(taken_first - 1, last)))
            first = max(first, taken_last + 1)
        left.append((first, last))
        left = [(start, end) for start, end in left if start <= end]
        if left:
            uses.append(SummaryUse(summary, tuple(left)))
            taken = sorted([*taken, *left])
    return tuple(sorted(uses, key=lambda use: use.stands_for))


def is_covered(position: int, uses: Iterable[SummaryUse]) -> bool:
    """Return whether a summary represents the message at this position."""
    return any(first <= position <= last for use in uses for first, last in use.stands_for)
