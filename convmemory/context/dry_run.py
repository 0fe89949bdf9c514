"""Shows the next request to a model without sending it: row by row for a person, and as JSON for a program.

Reads the positions of omitted messages; the rest comes from the `FilterResult`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from convmemory.accounts.callers import Caller
from convmemory.context.sending import preview_context
from convmemory.context.values import ContextRecipe, FilterResult, StrategyStep, SummaryUse
from convmemory.context.wire import wire_messages
from convmemory.conversations.messages.parts import part_text
from convmemory.conversations.models import Message
from convmemory.core.text import one_line

GIST_CHARS = 160

RowKind = Literal["sent", "shortened", "inserted", "left out"]


@dataclass(frozen=True, slots=True)
class DryRunRow:
    """A message that is sent, or a run of messages left out by the same strategy."""

    kind: RowKind
    position: int
    last_position: int
    turn_number: int | None
    role: str = ""
    tokens: int = 0
    gist: str = ""
    strategy: str = ""

    @property
    def count(self) -> int:
        return self.last_position - self.position + 1


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run and its rows, in the order of the conversation; insertions by strategies come first."""

    result: FilterResult
    rows: tuple[DryRunRow, ...]

    @property
    def tokens_left(self) -> int:
        return max(self.result.window - self.result.tokens_after, 0)

    @property
    def steps(self) -> tuple[StrategyStep, ...]:
        return self.result.steps

    def as_json(self) -> dict[str, Any]:
        """Return the values for the API; `messages` is the literal content of the request."""
        result = self.result
        names = ("name", "removed_ids", "shortened_ids", "added", "tokens_before", "tokens_after")
        return {
            "strategies_applied": result.strategies_applied,
            "steps": [
                {name: getattr(step, name) for name in names} | {"summaries": list(map(_summary, step.summaries))}
                for step in result.steps
            ],
            "removed_ids": result.removed_ids,
            "shortened_ids": result.shortened_ids,
            "tokens_before": result.tokens_before,
            "tokens_after": result.tokens_after,
            "fixed_tokens": result.fixed_tokens,
            "window": result.window,
            "fits": result.fits,
            "error": result.error.message if result.error else None,
            "messages": wire_messages(result.system_prompt, result.messages),
        }


def _summary(use: SummaryUse) -> dict[str, Any]:
    return {
        "id": use.summary.summary_id,
        "from_position": use.summary.from_position,
        "to_position": use.summary.to_position,
        "stands_for": use.stands_for,
    }


def dry_run(*, caller: Caller, conversation_id: int, recipe: ContextRecipe, encoding: str) -> DryRun:
    """Return the context that a model would be sent for the conversation now; send, announce and store nothing.

    Raises: NotFound, InvalidInput.
    """
    result = preview_context(caller=caller, conversation_id=conversation_id, recipe=recipe, encoding=encoding)
    rows = Message.objects.filter(
        archive_id=caller.archive_id, conversation_id=conversation_id, pk__in=result.removed_ids
    )
    places = {pk: (position, turn) for pk, position, turn in rows.values_list("pk", "position", "turn_number")}
    return DryRun(result, tuple(_rows(result, places)))


def _rows(result: FilterResult, places: Mapping[int, tuple[int, int | None]]) -> Iterator[DryRunRow]:
    shortened = set(result.shortened_ids)
    kept: list[DryRunRow] = []
    for message in result.messages:
        kind: RowKind = "sent"
        if message.message_id is None:
            kind = "inserted"
        elif message.message_id in shortened:
            kind = "shortened"
        text = " ".join(part_text(part)[: GIST_CHARS * 4] for part in message.parts)
        kept.append(
            DryRunRow(
                kind=kind,
                position=message.position,
                last_position=message.position,
                turn_number=message.turn_number,
                role=message.role,
                tokens=message.tokens,
                gist=one_line(text, GIST_CHARS),
            )
        )
    yield from (row for row in kept if row.kind == "inserted")
    stored = [row for row in kept if row.kind != "inserted"]
    # A row for each run of consecutive messages that the same strategy left out.
    removed = ((pk, step.name) for step in result.steps for pk in step.removed_ids if pk in places)
    gone = sorted(((*places[pk], name) for pk, name in removed), key=lambda removal: removal[0])
    for _, run in groupby(enumerate(gone), key=lambda item: (item[1][0] - item[0], item[1][2])):
        members = [member for _, member in run]
        (first, turn, strategy), (last, _, _) = members[0], members[-1]
        stored.append(DryRunRow("left out", first, last, turn, strategy=strategy))
    yield from sorted(stored, key=lambda row: row.position)
