"""Finds the turns that decide otherwise than earlier ones of their conversation, as search says of its hits.

`search/apps.py` connects it to the counting of conversations, which keeps both turns as points of the river. Turns of
other conversations are compared by a search alone, among its best hits.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from django.db.models import Q

from convmemory.conversations.messages.parts import part_from_json
from convmemory.conversations.models import Figures, Message
from search.adapters.conversations import heading_of
from search.results.later_turns import FOLLOWING
from search.results.overturned import Said, overturning

COMPARED_TURNS = 1_000  # of a conversation, the last ones; each is compared with `FOLLOWING`, in 0.1 ms each
POINTS = 20  # of a conversation, the newest


class Turn(NamedTuple):
    """A turn with the time at which it was asked."""

    number: int
    exchange: Said
    at: datetime | None


def on_conversations_counted(sender: Any, *, archive_id: int, conversation_ids: Collection[int], **kwargs: Any) -> None:
    """Store the points of these conversations. Three queries."""
    rows = {row.conversation_id: row for row in Figures.objects.filter(
        archive_id=archive_id, conversation_id__in=conversation_ids
    ).only("pk", "conversation_id")}  # fmt: skip
    for row in rows.values():
        row.points = []
    spoken = Message.objects.filter(
        Q(is_real_user=True) | Q(outcome__isnull=False),
        archive_id=archive_id, conversation_id__in=conversation_ids, superseded=False, turn_number__isnull=False,
    ).order_by("conversation_id", "position")  # fmt: skip
    columns = spoken.values_list("conversation_id", "turn_number", "parts", "outcome", "created_at")
    for number, of_conversation in groupby(columns.iterator(chunk_size=200), key=itemgetter(0)):
        turns = []
        for turn, group in groupby(of_conversation, key=itemgetter(1)):
            messages = list(group)
            heading = heading_of(part_from_json(part) for _, _, parts, *_ in messages for part in parts)
            outcomes = [outcome or {} for *_, outcome, _ in messages]
            conclusion = next((outcome["conclusion"] for outcome in outcomes if "conclusion" in outcome), "")
            at = next((at for *_, at in messages if at), None)
            turns.append(Turn(turn, Said(heading, conclusion), at))
        rows[number].points = points_of(turns[-COMPARED_TURNS:])
    Figures.objects.bulk_update(rows.values(), ["points"])


def points_of(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return the turns that decide otherwise, and those that they overturned on another day, the newest last."""
    points: dict[tuple[str, int], dict[str, Any]] = {}
    for position, earlier in enumerate(turns):
        for later in turns[position + 1 : position + 1 + FOLLOWING]:
            quote = overturning(earlier.exchange, later.exchange, is_next=later.number == earlier.number + 1)
            if not quote:
                continue
            points["decided", later.number] = _point("decided", later, quote)
            if earlier.at and later.at and earlier.at.date() != later.at.date():
                points["overturned", earlier.number] = _point("overturned", earlier, quote)
    return sorted(points.values(), key=itemgetter("turn"))[-POINTS:]


def _point(kind: str, turn: Turn, quote: str) -> dict[str, Any]:
    return {"kind": kind, "turn": turn.number, "note": quote, "at": turn.at and turn.at.isoformat()}
