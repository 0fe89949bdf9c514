"""Decides which completed summary represents which messages of a conversation. Pure."""

from collections.abc import Iterable, Sequence

from convmemory.context.values import PositionRange, SummaryText, SummaryUse


def chain_of(summaries: Sequence[SummaryText], *, last_position: int) -> tuple[SummaryUse, ...]:
    """Return the summaries to use up to a position, in the order of the messages they represent.

    `summaries` are given newest first. If two summaries cover the same message, the later one represents it; a summary
    that represents no message is not used.
    """
    taken: list[PositionRange] = []
    uses: list[SummaryUse] = []
    for summary in summaries:
        left = _without((summary.from_position, min(summary.to_position, last_position)), taken)
        if left:
            uses.append(SummaryUse(summary, tuple(left)))
            taken = sorted([*taken, *left])
    return tuple(sorted(uses, key=lambda use: use.stands_for))


def is_covered(position: int, uses: Iterable[SummaryUse]) -> bool:
    """Return whether a summary represents the message at this position."""
    return any(first <= position <= last for use in uses for first, last in use.stands_for)


def _without(wanted: PositionRange, taken: Iterable[PositionRange]) -> list[PositionRange]:
    """Return what remains of a range; `taken` are in order and do not overlap."""
    first, last = wanted
    left: list[PositionRange] = []
    for taken_first, taken_last in taken:
        if taken_first > first:
            left.append((first, min(taken_first - 1, last)))
        first = max(first, taken_last + 1)
    left.append((first, last))
    return [(start, end) for start, end in left if start <= end]
