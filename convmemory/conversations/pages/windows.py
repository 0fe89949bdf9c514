"""The messages of a conversation that a page shows: a window around a turn, and those before and after it.

Positions are dense (0, 1, 2, ...), so a window is a range of positions: a conversation of any length costs the same two
queries. The caller has checked the conversation's owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, F, JSONField, Max, Min, OuterRef, Q, QuerySet, Subquery, When

from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.messages.parts import TextPart, ThinkingPart
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.pages.part_views import TEXT_CHARS, TOOL_CHARS

WINDOW_MESSAGES = 40
MESSAGES_BEFORE_TURN = 8
MESSAGES_OF_CALL = 8  # between which calls and their results stand, if several run at once
# A page has a limit of characters too, because single messages can be megabytes.
WINDOW_CHARS = 120_000


@dataclass(frozen=True, slots=True)
class Window:
    """Messages in order. `earlier` and `later` are positions to load from, None at the ends.

    `outcomes` are those of the turns that end in the window, by their last messages.
    """

    messages: list[Message]
    turn_before: int | None
    earlier: int | None
    later: int | None
    target: int | None = None
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)


def window_around(conversation: Conversation, turn: int | None, message_id: int | None = None) -> Window:
    """Return the messages around the first one of `turn`; from the start if there is no such turn.

    If message `message_id`, of the turn or near it, is too far down for this window, the messages around it instead.
    """
    if turn is not None:
        # The positions of the turn's first message and of message `message_id`. One query.
        places = conversation.messages.filter(Q(turn_number=turn) | Q(pk=message_id or 0)).aggregate(
            first=Min("position", filter=Q(turn_number=turn)), wanted=Min("position", filter=Q(pk=message_id or 0))
        )
        first, linked = places["first"], places["wanted"]
    else:
        first, linked = (None, None)
    target = turn if first is not None else None
    window = _window_from(conversation, first or 0, target)
    if linked is None or any(message.position == linked for message in window.messages):
        return window
    return _window_from(conversation, linked, target)


def _window_from(conversation: Conversation, position: int, target: int | None) -> Window:
    start = max(0, min(position - MESSAGES_BEFORE_TURN, conversation.message_count - WINDOW_MESSAGES))
    return _window(conversation, start, start + WINDOW_MESSAGES, keep=position, target=target)


def window_before(conversation: Conversation, position: int) -> Window:
    """Return the messages right before `position`."""
    return _window(conversation, max(0, position - WINDOW_MESSAGES), position, keep=position - 1)


def window_after(conversation: Conversation, position: int) -> Window:
    """Return the messages from `position` on."""
    return _window(conversation, max(0, position), position + WINDOW_MESSAGES, keep=position)


def skip_work(conversation: Conversation, position: int, continues: str) -> int:
    """Return the position from which, or before which, a window has a question or the end of a turn. One query.

    A turn of 5,000 steps would else be 245 windows without any, which the page loads one after the other.
    """
    turn = conversation.messages.filter(position=position).values("turn_number")
    asked, same_turn = Q(role=Message.Role.USER), Q(turn_number=Subquery(turn))
    if continues == "after":
        places = conversation.messages.filter(position__gte=position).aggregate(
            asked=Min("position", filter=asked), ended=Max("position", filter=same_turn)
        )
        return min(
            (position_of_call for position_of_call in places.values() if position_of_call is not None), default=position
        )
    places = conversation.messages.filter(position__lt=position).aggregate(
        asked=Max("position", filter=asked), ended=Max("position", filter=~same_turn)
    )
    return max(
        (position_of_call + 1 for position_of_call in places.values() if position_of_call is not None), default=0
    )


def _window(conversation: Conversation, start: int, end: int, *, keep: int, target: int | None = None) -> Window:
    """Return the messages of a range of positions, in one query.

    The row before `start` only shows whether the first message opens its turn.
    """
    chosen = conversation.messages.filter(position__gte=start - 1, position__lt=end).order_by("position")
    rows = list(_with_outcomes(chosen))
    before = [row for row in rows if row.position < start]
    messages = rows[len(before) :]
    # Around the message to keep, as many as weigh at most `WINDOW_CHARS`; later messages take precedence.
    weights: list[int] = []
    for message in messages:
        limits = (
            TEXT_CHARS if isinstance(part, (TextPart, ThinkingPart)) else TOOL_CHARS for part in message.typed_parts
        )
        weights.append(sum(min(len(str(part)), limit) for part, limit in zip(message.parts, limits, strict=True)))
    first = last = kept = min(max(keep - start, 0), max(len(weights) - 1, 0))
    room = WINDOW_CHARS
    while last < len(weights) and (room > 0 or last == first):
        room -= weights[last]
        last += 1
    while first > 0 and room > 0:
        first -= 1
        room -= weights[first]
    # A call and its result are shown together: one without the other is left to the page before or after.
    if start + last < conversation.message_count:
        answered = {id for message in messages[first:last] for id in _ids(message, "tool_result", "call_id")}
        tail = range(max(kept + 1, last - MESSAGES_OF_CALL), last)
        last = next((at for at in tail if not answered.issuperset(_ids(messages[at], "tool_call", "id"))), last)
    while first < kept and messages[first].position and _ids(messages[first], "tool_result", "call_id"):
        first += 1
    before += messages[:first]
    messages = messages[first:last]
    following = messages[-1].position + 1 if messages else conversation.message_count
    return Window(
        messages=messages,
        turn_before=before[-1].turn_number if before else None,
        earlier=messages[0].position if messages and messages[0].position > 0 else None,
        later=following if following < conversation.message_count else None,
        target=target,
        outcomes={message.pk: Outcome.from_json(message.turn_outcome) for message in messages if message.turn_outcome},
    )


def _ids(message: Message, kind: str, name: str) -> set[str]:
    """Return the ids under a name in the message's parts of one kind."""
    return {part.get(name, "") for part in message.parts if part.get("type") == kind}


def _with_outcomes(rows: QuerySet[Message]) -> QuerySet[Any]:
    """Return the messages, the last one of each turn with the turn's outcome as `turn_outcome`."""
    others = Message.objects.filter(
        archive_id=OuterRef("archive_id"), conversation_id=OuterRef("conversation_id"), superseded=False
    )
    following = others.filter(position__gt=OuterRef("position")).order_by("position").values("turn_number")[:1]
    opening = others.filter(turn_number=OuterRef("turn_number"), outcome__isnull=False).values("outcome")[:1]
    ends_turn = Q(next_turn__isnull=True) | ~Q(next_turn=F("turn_number"))
    # The opening is looked up at the ends of turns alone: it takes longer in long turns.
    outcome = Case(When(ends_turn & Q(superseded=False), then=Subquery(opening)), output_field=JSONField())
    return rows.annotate(next_turn=Subquery(following), turn_outcome=outcome)
