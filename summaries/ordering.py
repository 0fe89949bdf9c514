"""Requests for summaries, and reading them: every function takes the caller. A worker does the work (`making.py`).

Nothing here enqueues: callers do so after these functions have returned.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Max, Min, QuerySet
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.quota import require_quota
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import get_conversation
from convmemory.core.endpoints.completions import endpoint_from_settings
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.trash import outside_trash
from summaries.models import ConversationSummary

METHODS = tuple(ConversationSummary.Method.values)


def request_summary(
    *,
    caller: Caller,
    conversation_id: int,
    from_position: int | None = None,
    to_position: int | None = None,
    method: str | None = None,
) -> ConversationSummary:
    """Create a pending summary of the messages between two positions, both included; by default of all messages.

    `method` is "model" or "extractive"; by default "model" if an endpoint is set up. Raises: NotFound; InvalidInput for
    a range in the wrong order or beyond the end, or an impossible method; QuotaUsedUp.
    """
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    first, last = _range(conversation, from_position, to_position)
    chosen = _method(method)
    _require_quota(caller, chosen)
    return ConversationSummary.objects.create(
        archive_id=caller.archive_id,
        conversation=conversation,
        from_position=first,
        to_position=last,
        method=chosen,
        asked_by=_asker(caller),
        due_at=timezone.now(),
    )


def _range(conversation: Conversation, from_position: int | None, to_position: int | None) -> tuple[int, int]:
    end = conversation.message_count - 1
    if end < 0:
        raise InvalidInput("This conversation has no messages: there is nothing to summarise.")
    first = 0 if from_position is None else from_position
    last = end if to_position is None else to_position
    for name, value in (("from_position", first), ("to_position", last)):
        if not 0 <= value <= end:
            raise InvalidInput(f"{name}={value} is not in the conversation: its messages are 0 to {end}.")
    if first > last:
        raise InvalidInput(f"from_position={first} comes after to_position={last}: swap the two.")
    return first, last


def _require_quota(caller: Caller, method: str) -> None:
    """Raise QuotaUsedUp if a model would write the summary and the owner has used up today's quota."""
    if method == ConversationSummary.Method.MODEL:
        require_quota(archive_id=caller.archive_id, person_id=caller.person_id)


def _asker(caller: Caller) -> int | None:
    return caller.person_id if caller.space else None


def _method(method: str | None) -> str:
    has_endpoint = endpoint_from_settings() is not None
    if method is None:
        return ConversationSummary.Method.MODEL if has_endpoint else ConversationSummary.Method.EXTRACTIVE
    if method not in METHODS:
        raise InvalidInput(f"method={method!r} is unknown: use {' or '.join(METHODS)}.")
    if method == ConversationSummary.Method.MODEL and not has_endpoint:
        raise InvalidInput(
            "No language model is set up: set CHAT_MODEL and CHAT_BASE_URL or CHAT_API_KEY, or use method=extractive."
        )
    return method


def regenerate_summary(*, caller: Caller, conversation_id: int, summary_id: int) -> ConversationSummary:
    """Set the summary to pending again, with the default method; its text stays until it is replaced.

    Raises: NotFound; InvalidInput if the conversation no longer has the range; QuotaUsedUp.
    """
    summary = get_summary(caller=caller, conversation_id=conversation_id, summary_id=summary_id)
    _range(summary.conversation, summary.from_position, summary.to_position)
    row = ConversationSummary.objects.filter(pk=summary.pk)
    method = _method(None)
    _require_quota(caller, method)
    row.update(method=method, asked_by=_asker(caller))
    make_pending(row)
    summary.refresh_from_db()
    return summary


def make_pending(summaries: QuerySet[ConversationSummary]) -> None:
    """Set these summaries to pending with all attempts restored; their texts stay until they are replaced."""
    now = timezone.now()
    summaries.update(
        status=ConversationSummary.Status.PENDING,
        error="",
        attempts=0,
        run=None,
        partials={},
        due_at=now,
        updated_at=now,
    )


def delete_summary(*, caller: Caller, conversation_id: int, summary_id: int) -> None:
    """Delete the summary for good; a worker that is still writing it stores nothing. Raises: NotFound."""
    get_summary(caller=caller, conversation_id=conversation_id, summary_id=summary_id).delete()


LIST_LIMIT = 200


def summaries_of(*, caller: Caller, conversation_id: int) -> list[ConversationSummary]:
    """Return the newest 200 summaries of the conversation, newest first. Raises: NotFound."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    rows = ConversationSummary.objects.filter(conversation=conversation, archive_id=caller.archive_id)
    return list(rows.defer("partials").order_by("-pk")[:LIST_LIMIT])


def get_summary(*, caller: Caller, conversation_id: int, summary_id: int) -> ConversationSummary:
    """Return the caller's summary. Raises: NotFound, the same for unknown and for foreign summaries."""
    rows = ConversationSummary.objects.filter(
        outside_trash("conversation"), archive_id=caller.archive_id, conversation_id=conversation_id, pk=summary_id
    )
    row = rows.select_related("conversation").defer("partials").first()
    if row is None:
        raise NotFound(f"Conversation {conversation_id} has no summary {summary_id}.")
    return row


def completed_summaries(*, caller: Caller, conversation_id: int) -> list[ConversationSummary]:
    """Return the completed summaries, most recently completed first, at most 200."""
    rows = ConversationSummary.objects.filter(
        archive_id=caller.archive_id, conversation_id=conversation_id, status=ConversationSummary.Status.COMPLETED
    )
    return list(rows.defer("partials").order_by("-completed_at", "-pk")[:LIST_LIMIT])


@dataclass(frozen=True, slots=True)
class TurnRange:
    """The turns that a summary covers; None for an end that belongs to no turn (yet)."""

    first: int | None
    last: int | None


def positions_of_turns(
    conversation: Conversation, first_turn: int | None, last_turn: int | None
) -> tuple[int | None, int | None]:
    """Return the positions of the first message of one turn and the last message of another.

    A turn of None means the conversation's own end, and is returned as None.

    One query. Raises: InvalidInput for a missing turn, or for turns in the wrong order.
    """
    if first_turn is not None and last_turn is not None and first_turn > last_turn:
        raise InvalidInput(f"Turn {first_turn + 1} comes after turn {last_turn + 1}: swap the two.")
    ends = [turn for turn in (first_turn, last_turn) if turn is not None]
    rows = conversation.messages.filter(turn_number__in=ends).values("turn_number")
    by_turn = {
        row["turn_number"]: (row["first"], row["last"])
        for row in rows.annotate(first=Min("position"), last=Max("position"))
    }
    for turn in ends:
        if turn not in by_turn:
            there = f"its turns are 1 to {conversation.turn_count}" if conversation.turn_count else "it has none"
            raise InvalidInput(f"The conversation has no turn {turn + 1}: {there}.")
    return (
        None if first_turn is None else by_turn[first_turn][0],
        None if last_turn is None else by_turn[last_turn][1],
    )


def turn_ranges(conversation: Conversation, summaries: Iterable[ConversationSummary]) -> dict[int, TurnRange]:
    """Return the turns of each summary by its id. One query."""
    rows = list(summaries)
    positions = {position for row in rows for position in (row.from_position, row.to_position)}
    pairs = conversation.messages.filter(position__in=positions).values_list("position", "turn_number")
    turns = dict(pairs)
    return {row.pk: TurnRange(turns.get(row.from_position), turns.get(row.to_position)) for row in rows}
