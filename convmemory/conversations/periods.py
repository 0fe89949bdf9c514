"""Says what was worked on in a period: the conversations with the most messages then, what they came to, and points.

Extracted from what is stored, without a model.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Literal

from django.db import connection
from django.db.models import Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.reading import visible_conversations
from convmemory.conversations.river import Period, River
from convmemory.core.sql import load_sql

CONVERSATIONS_SHOWN = 12
FILES_SHOWN = 4  # of a conversation
YEARS_BACK = 30
POINTS_READ = 500  # of each kind, the newest
POINT_WIDTH = 1 / 24  # of a picture: nearer ones overlap on a phone
POINT_KINDS = (("star",), ("wrong", "outdated"), ("overturned", "decided"))  # the first are shown before the others
ON_THIS_DAY_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Worked:
    """A conversation with its messages and changed files in a period; `turn` is its last turn then with an outcome."""

    conversation_id: int
    title: str
    program: str
    project: str
    messages: int
    last_day: date
    turn: int | None
    outcome: Outcome
    files: tuple[str, ...]

    @property
    def project_name(self) -> str:
        return project_name(self.project)

    @property
    def url(self) -> str:
        return _address(self.conversation_id, self.turn)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was worked on in a period: of `count` conversations those with the most messages."""

    count: int
    worked: Sequence[Worked]


def summary_of(*, caller: Caller, period: Period) -> Summary:
    """Return what was worked on in a period. One query."""
    values: dict[str, Any] = {
        "owner": caller.archive_id,
        "first": str(period.first),
        "last": str(period.last),
        "begin": _begin(period.first),
        "end": _end(period.last),
        "limit": CONVERSATIONS_SHOWN,
        "files": FILES_SHOWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "worked_on"), values)
        rows = cursor.fetchall()
    worked = [
        Worked(
            number, title, program, project, messages, date.fromisoformat(last), turn,
            Outcome.from_json(json.loads(outcome or "{}")), tuple(files),
        )
        for number, title, program, project, messages, last, turn, outcome, files, _ in rows
    ]  # fmt: skip
    return Summary(rows[0][-1] if rows else 0, worked)


@dataclass(frozen=True, slots=True)
class Point:
    """A starred conversation, a turn that its owner marked, or one that decides otherwise or was overturned.

    `at` is its distance from the beginning of a picture; `others` are as near to it and not shown.
    """

    kind: Literal["star", "wrong", "outdated", "decided", "overturned"]
    conversation_id: int
    turn: int | None
    title: str
    note: str
    day: date
    at: str
    others: int

    @property
    def url(self) -> str:
        return _address(self.conversation_id, self.turn)

    @property
    def label(self) -> str:
        """Return the point in words: what it is, its title, the note, the day and how many are near."""
        names = {
            "star": gettext("Starred"),
            "wrong": gettext("Marked as wrong"),
            "outdated": gettext("Marked as outdated"),
            "decided": gettext("Decided otherwise"),
            "overturned": gettext("Overturned later"),
        }
        title = self.title or gettext("Untitled conversation")
        near = gettext("and %(count)s more near it") % {"count": self.others} if self.others else ""
        return " · ".join(filter(None, (names[self.kind], title, self.note, date_format(self.day), near)))


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a picture in the order of their days; `count` with those that are too near to be shown."""

    shown: Sequence[Point] = ()
    count: int = 0


def points_in(*, caller: Caller, river: River) -> Points:
    """Return the points in the time of a picture, stars first, and those that leave room between them. One query."""
    values: dict[str, Any] = {
        "owner": caller.archive_id,
        "begin": _begin(river.period.first),
        "end": _end(river.period.last),
        "limit": POINTS_READ,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "points_in_time"), values)
        rows = cursor.fetchall()
    ranks = {kind: rank for rank, kinds in enumerate(POINT_KINDS) for kind in kinds}
    shown: dict[float, tuple[Any, ...]] = {}
    near: Counter[float] = Counter()
    for row in sorted(rows, key=lambda row: ranks[row[0]]):
        share = river.share_at(timezone.localdate(row[5]))
        nearest = min(shown, key=lambda other: abs(share - other), default=None)
        if nearest is None or abs(share - nearest) >= POINT_WIDTH:
            shown[share] = row
        else:
            near[nearest] += 1
    points = []
    for share, (kind, number, turn, title, note, at, _) in sorted(shown.items()):
        day = timezone.localdate(at)
        points.append(Point(kind, number, turn, title, note, day, river.at(day), near[share]))
    totals = {ranks[kind]: total for kind, *_, total in rows}
    return Points(tuple(points), sum(totals.values()))


def on_this_day(*, caller: Caller, today: date) -> list[Conversation]:
    """Return conversations whose last message is of this day in an earlier year, the newest first. One query."""
    days = Q()
    for year in range(max(today.year - YEARS_BACK, 1), today.year):
        if (today.month, today.day) != (2, 29) or Period.of_month(year, 2).last.day == today.day:
            day = today.replace(year=year)
            days |= Q(updated_at__gte=_begin(day), updated_at__lt=_end(day))
    return list(visible_conversations(caller).filter(days).order_by("-updated_at", "-id")[:ON_THIS_DAY_SHOWN])


def _address(conversation_id: int, turn: int | None) -> str:
    address = f"/conversations/{conversation_id}"
    return address if turn is None else f"{address}?turn={turn}#turn-{turn}"


def _begin(day: date) -> datetime:
    """Return the first moment of a day in the time zone of pages; at the ends of the calendar, of any."""
    moment = datetime.combine(day, time.min)
    return moment.replace(tzinfo=timezone.get_current_timezone())


def _end(day: date) -> datetime:
    return _begin(day) + timedelta(days=1) if day < date.max else _begin(day)
