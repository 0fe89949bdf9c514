"""Converts between turns, which people name, and positions, which summaries store.

The caller has checked the owner.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Max, Min

from convmemory.conversations.models import Conversation
from convmemory.core.errors import InvalidInput
from summaries.models import ConversationSummary


@dataclass(frozen=True, slots=True)
class TurnRange:
    """The turns that a summary covers; None for an end that belongs to no turn (yet)."""

    first: int | None
    last: int | None


def positions_of_turns(
    conversation: Conversation, first_turn: int | None, last_turn: int | None
) -> tuple[int | None, int | None]:
    """Return the positions of the first message of one turn and the last message of another.

    A turn of None means the conversation's own end, and is returned as None. Error messages count turns from one, as
    pages do.

    One query. Raises: InvalidInput for a missing turn, or for turns in the wrong order.
    """
    if first_turn is not None and last_turn is not None and first_turn > last_turn:
        raise InvalidInput(f"Turn {first_turn + 1} comes after turn {last_turn + 1}: swap the two.")
    wanted = [turn for turn in (first_turn, last_turn) if turn is not None]
    rows = conversation.messages.filter(turn_number__in=wanted).values("turn_number")
    found = {
        row["turn_number"]: (row["first"], row["last"])
        for row in rows.annotate(first=Min("position"), last=Max("position"))
    }
    for turn in wanted:
        if turn not in found:
            there = f"its turns are 1 to {conversation.turn_count}" if conversation.turn_count else "it has none"
            raise InvalidInput(f"The conversation has no turn {turn + 1}: {there}.")
    return (
        None if first_turn is None else found[first_turn][0],
        None if last_turn is None else found[last_turn][1],
    )


def turn_ranges(conversation: Conversation, summaries: Iterable[ConversationSummary]) -> dict[int, TurnRange]:
    """Return the turns of each summary by its id. One query."""
    rows = list(summaries)
    positions = {position for row in rows for position in (row.from_position, row.to_position)}
    found = conversation.messages.filter(position__in=positions).values_list("position", "turn_number")
    turns = dict(found)
    return {row.pk: TurnRange(turns.get(row.from_position), turns.get(row.to_position)) for row in rows}
