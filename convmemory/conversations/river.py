"""The river of time: the messages of an archive by month or by day, in bands by project, by program or by space.

Sums what `statistics.count_changed` counted of each conversation (`Figures`), with the project and the program that the
conversation has now, in one query. Archived conversations and the trash are left out, as in lists and search. The bands
of spaces are those that the database says the person is a member of, and their own archive.
"""

from bisect import bisect_right
from calendar import monthrange
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, date, timedelta
from itertools import groupby
from math import sqrt
from typing import Literal, NamedTuple
from urllib.parse import urlencode

from django.db import connection
from django.utils.formats import date_format
from django.utils.translation import gettext

from convmemory.accounts.callers import MINE, Caller
from convmemory.conversations.models import project_name
from convmemory.core.sql import load_sql

By = Literal["project", "program", "space"]

BANDS = 7  # more would be too thin to compare; the rest is one band
DAYS_SHOWN = 100  # a longer time is shown by months
LEAST_DAYS = 30  # of the picture of a new archive
YEARS_SHOWN = 30  # up to now: a wrong date, as year 1 or 1970, must not squeeze the rest
EMPTY_YEARS = 2  # and more without a message are one column
LONGEST_MONTH = 31
LABELS, LABEL_CHARS = 6, 60  # that fit below the picture on a phone
HALF = 120  # of the height of a band, in units of the drawing; a column is `COLUMN` of them wide
COLUMN = 4
THINNEST = 8
MONTH_CHARS, DAY_CHARS = len("2026-05"), len("2026-05-01")


class Count(NamedTuple):
    """The messages of a project, a program or an archive's number in a month ("2026-05") or on a day ("2026-05-01")."""

    period: str
    band: str
    messages: int


class Counts(NamedTuple):
    """Counts, and how many conversations of an archive, by its number, changed since they were counted."""

    counts: Sequence[Count]
    uncounted: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Period:
    """The days from `first` to `last`."""

    first: date
    last: date

    @classmethod
    def of_month(cls, year: int, month: int) -> "Period":
        return cls(date(year, month, 1), date(year, month, monthrange(year, month)[1]))

    @classmethod
    def of_year(cls, year: int) -> "Period":
        return cls(date(year, 1, 1), date(year, 12, 31))

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def is_month(self) -> bool:
        return self == Period.of_month(self.first.year, self.first.month)

    @property
    def is_year(self) -> bool:
        return self == Period.of_year(self.first.year)

    @property
    def has_whole_months(self) -> bool:
        return self.first.day == 1 and self.last == Period.of_month(self.last.year, self.last.month).last

    @property
    def query(self) -> str:
        """Return the filters of a search for the period, as the query of its address."""
        return urlencode({"after": self.first.isoformat(), "before": self.last.isoformat()})

    @property
    def label(self) -> str:
        """Return the name of the period: a year, a month, a day, or its two ends."""
        if self.is_year:
            return str(self.first.year)
        if self.is_month:
            return date_format(self.first, "YEAR_MONTH_FORMAT")
        if self.days == 1:
            return date_format(self.first)
        form = "YEAR_MONTH_FORMAT" if self.has_whole_months else None
        ends = {"first": date_format(self.first, form), "last": date_format(self.last, form)}
        return gettext("%(first)s to %(last)s") % ends

    @property
    def ways(self) -> "list[Period]":
        """Return the periods that a page leads to: the one around it, the one before and the one after."""
        wider = []
        if self.days == 1:
            wider = [Period.of_month(self.first.year, self.first.month)]
        elif self.is_month:
            wider = [Period.of_year(self.first.year)]
        return [*wider, *self._next_to(-1), *self._next_to(1)]

    def _next_to(self, step: Literal[-1, 1]) -> "list[Period]":
        """Return the period before or after, as many months long or days; none at the ends of the calendar."""
        try:
            if self.has_whole_months:
                months = step * (_number(self.last) - _number(self.first) + 1)
                first, last = (_numbered(_number(end) + months) for end in (self.first, self.last))
                return [Period(first.first, last.last)]
            move = timedelta(days=step * self.days)
            return [Period(self.first + move, self.last + move)]
        except (OverflowError, ValueError):
            return []


@dataclass(frozen=True, slots=True)
class Column:
    """A month or a day of the picture, or years without a message."""

    period: Period
    messages: int

    @property
    def is_gap(self) -> bool:
        return self.period.days > LONGEST_MONTH


@dataclass(frozen=True, slots=True)
class Band:
    """A project, a program or an archive; `drawing` is the path of its shape.

    `query` is that of a search for it, "" for none.
    """

    name: str
    label: str
    query: str
    messages: int
    drawing: str


@dataclass(frozen=True, slots=True)
class Label:
    """A text below the picture, or of a gap in it; `at` is its distance from the beginning, for the style sheet."""

    text: str
    at: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """A year with its months, or a month with its days, for the list; those without a message are left out."""

    column: Column
    columns: Sequence[Column]


@dataclass(frozen=True, slots=True)
class River:
    """The picture. `outside` are messages whose dates are too far away to be shown.

    `uncounted` are the conversations of each archive, by its number, that changed since they were counted; of a picture
    of all times.
    """

    by: By
    period: Period
    grain: Literal["month", "day"]
    columns: Sequence[Column]
    bands: Sequence[Band]
    outside: int
    uncounted: Mapping[int, int]

    @property
    def messages(self) -> int:
        return sum(column.messages for column in self.columns)

    @property
    def width(self) -> int:
        return COLUMN * len(self.columns)

    @property
    def height(self) -> int:
        return 2 * HALF

    def share_at(self, day: date) -> float:
        """Return the share of the picture that lies before a day of its period."""
        position = bisect_right(self.columns, day, key=lambda column: column.period.first) - 1
        period = self.columns[position].period
        return (position + (day - period.first).days / period.days) / len(self.columns)

    def at(self, day: date) -> str:
        """Return the distance of a day of the period from the beginning of the picture, for the style sheet."""
        return f"{100 * self.share_at(day):.2f}%"

    def _at(self, position: int) -> str:
        return f"{100 * position / len(self.columns):.2f}%"

    @property
    def column_width(self) -> str:
        return self._at(1)

    @property
    def for_script(self) -> str:
        """Return the first day, the last day and the messages of each column."""
        return " ".join(f"{each.period.first}/{each.period.last}/{each.messages}" for each in self.columns)

    @property
    def gaps(self) -> list[Label]:
        """Return the columns of years without a message."""
        return [
            Label(column.period.label, self._at(position))
            for position, column in enumerate(self.columns)
            if column.is_gap
        ]

    @property
    def labels(self) -> list[Label]:
        """Return the texts below the picture, with room between them; next to gaps always the years."""
        days = [column.period.first for column in self.columns]
        next_to_gaps: list[tuple[int, str]] = []
        if self.grain == "day" and len(days) <= 2 * LEAST_DAYS:
            step = next(step for step in (1, 2, 5, 7, 14) if len(days) <= step * LABELS)
            marks = [(position, date_format(day, "j M")) for position, day in enumerate(days) if not position % step]
        else:
            gaps = {position for position, column in enumerate(self.columns) if column.is_gap}
            next_to_gaps = [
                (position, str(days[position].year))
                for position in (0, *(gap + 1 for gap in gaps))
                if gaps and position not in gaps and position < len(days)
            ]
            firsts = [(position, day) for position, day in enumerate(days) if day.day == 1 and position not in gaps]
            steps = (12, 24, 60, 120) if gaps else (1, 2, 3, 6, 12, 24, 60, 120)
            step = next(step for step in steps if len(firsts) <= step * LABELS)
            marks = [
                (position, str(day.year) if step >= 12 else date_format(day, "SHORT_MONTH_FORMAT"))
                for position, day in firsts
                if not (day.year * 12 + day.month - 1) % step
            ]
        end = len(days) * (1 - max(len(text) for _, text in marks or [(0, "")]) / LABEL_CHARS)
        room, shown = len(days) / (LABELS + 1), dict[int, str]()
        for position, text in [*next_to_gaps, *marks]:
            if position < end and all(abs(position - other) >= room for other in shown):
                shown[position] = text
        return [Label(text, self._at(position)) for position, text in sorted(shown.items())]

    @property
    def shelves(self) -> list[Shelf]:
        """Return the list that says what the picture shows, the newest first."""
        shelves = []
        filled = [column for column in reversed(self.columns) if column.messages]
        for _, group in groupby(filled, key=lambda column: self._wider(column).first):
            columns = list(group)
            total = Column(self._wider(columns[0]), sum(column.messages for column in columns))
            shelves.append(Shelf(total, columns))
        return shelves

    def _wider(self, column: Column) -> Period:
        first = column.period.first
        return Period.of_year(first.year) if self.grain == "month" else Period.of_month(first.year, first.month)


def river_of(*, caller: Caller, by: By, today: date, period: Period | None = None) -> River | None:
    """Return the picture of a period, or of all that there is up to today; None without a message in it.

    One query, or two for all of an archive that is younger than `DAYS_SHOWN`.
    """
    window = Period(date(max(today.year - YEARS_SHOWN, MINYEAR), 1, 1), date(min(today.year + 1, MAXYEAR), 12, 31))
    if period is not None:
        shown = Period(max(period.first, window.first), min(period.last, window.last))
        if shown.first > shown.last:
            return None
        chars = DAY_CHARS if shown.days <= DAYS_SHOWN else MONTH_CHARS
        return _river(caller, by, shown, _counts(caller, by, chars, shown))
    counts, uncounted = _counts(caller, by, MONTH_CHARS, None)
    dated = [count for count in counts if str(window.first) <= count.period <= str(window.last)]
    outside = sum(count.messages for count in counts) - sum(count.messages for count in dated)
    if not dated:
        return None
    first, last = (date.fromisoformat(f"{end(count.period for count in dated)}-01") for end in (min, max))
    last = max(last, today)
    shown = Period(first, Period.of_month(last.year, last.month).last)
    if shown.days > DAYS_SHOWN:
        return _river(caller, by, shown, Counts(dated, uncounted), outside)
    by_day = _counts(caller, by, DAY_CHARS, shown)
    days = [date.fromisoformat(count.period) for count in by_day.counts] or [today]
    end = max(*days, today)
    shown = Period(min(*days, end - timedelta(days=LEAST_DAYS - 1)), end)
    return _river(caller, by, shown, Counts(by_day.counts, uncounted), outside)


def _counts(caller: Caller, by: By, chars: int, period: Period | None) -> Counts:
    """Return the messages of each band by the first characters of their days."""
    values: dict[str, int | str] = {
        "owner": caller.archive_id,
        "by": by,
        "chars": chars,
        "first": str(period.first) if period else "",
        "last": str(period.last) if period else "~",
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "messages_by_time"), values)
        rows = [Count(*row) for row in cursor.fetchall()]
    uncounted = {int(row.band): row.messages for row in rows if not row.period}
    return Counts([row for row in rows if row.period], uncounted)


def _river(caller: Caller, by: By, period: Period, counted: Counts, outside: int = 0) -> River | None:
    named = _named(caller, by, {count.band for count in counted.counts})
    counts = [count for count in counted.counts if count.band in named]
    if not counts:
        return None
    chars = len(counts[0].period)
    grain: Literal["month", "day"] = "day" if chars == DAY_CHARS else "month"
    days = (period.first + timedelta(days=number) for number in range(period.days))
    years = {int(count.period[:4]) for count in counts}
    spans = [Period(day, day) for day in days] if grain == "day" else _months(period, years)
    places = {str(span.first)[:chars]: position for position, span in enumerate(spans)}
    totals: Counter[int] = Counter()
    by_name: dict[str, Counter[int]] = {}
    for count in counts:
        position = places[count.period]
        totals[position] += count.messages
        by_name.setdefault(count.band, Counter())[position] += count.messages
    columns = [Column(span, totals[position]) for position, span in enumerate(spans)]
    return River(by, period, grain, columns, _bands(by, by_name, named, len(spans)), outside, counted.uncounted)


def _months(period: Period, years: Container[int]) -> list[Period]:
    """Return the months of a period, of which the first and the last may be parts; `EMPTY_YEARS` and more in one.

    `years` are those with a message.
    """
    full = [_numbered(number) for number in range(_number(period.first), _number(period.last) + 1)]
    months = [Period(max(span.first, period.first), min(span.last, period.last)) for span in full]
    spans: list[Period] = []
    for is_filled, group in groupby(months, key=lambda month: month.first.year in years):
        run = list(group)
        is_gap = not is_filled and run[-1].last.year - run[0].first.year >= EMPTY_YEARS - 1
        spans += [Period(run[0].first, run[-1].last)] if is_gap else run
    return spans


def _number(day: date) -> int:
    return day.year * 12 + day.month - 1


def _numbered(number: int) -> Period:
    year, month = divmod(number, 12)
    return Period.of_month(year, month + 1)


class Named(NamedTuple):
    """The label of a band and the query of a search for it, "" for none."""

    label: str
    query: str


def _named(caller: Caller, by: By, names: Iterable[str]) -> dict[str, Named]:
    """Return what pages show of projects, of programs, or of the archives that the caller reads."""
    if by == "space":
        return {
            str(access.archive_id): Named(access.name, _query_of_space(access.space.name if access.space else MINE))
            for access in caller.archives
        }
    return {
        name: Named(
            (project_name(name) or name if by == "project" else name) or gettext("Without a project"),
            urlencode({"project" if by == "project" else "agent": name}) if name else "",
        )
        for name in names
    }


def _query_of_space(name: str) -> str:
    return "" if '"' in name else urlencode({"q": f'space:"{name}"'})


def _bands(by: By, by_name: Mapping[str, Counter[int]], named: Mapping[str, Named], count: int) -> list[Band]:
    """Return the bands with the most messages, and one for the rest."""
    names = sorted(by_name, key=lambda name: (-by_name[name].total(), name))
    shown = names if len(names) <= BANDS else names[: BANDS - 1]
    rest = names[len(shown) :]
    counters = [(name, by_name[name]) for name in shown]
    other: Counter[int] = Counter()
    for name in rest:
        other.update(by_name[name])
    most = max(max(counter.values()) for _, counter in [*counters, ("", other)] if counter)
    bands = [
        Band(name, *named[name], counter.total(), drawing_of([counter[position] for position in range(count)], most))
        for name, counter in counters
    ]
    if rest:
        text = {
            "project": gettext("%(count)s other projects"),
            "program": gettext("%(count)s other programs"),
            "space": gettext("%(count)s other spaces"),
        }[by]
        drawing = drawing_of([other[position] for position in range(count)], most)
        bands.append(Band("", text % {"count": len(rest)}, "", other.total(), drawing))
    return bands


def drawing_of(messages: Sequence[int], most: int) -> str:
    """Return the path of a band: as thick as the root of the messages, so that few of them stay visible."""
    halves = [max(round(HALF * sqrt(count / most)), THINNEST) if count else 0 for count in messages]
    return "".join(
        _shape([position for position, _ in group], halves)
        for is_filled, group in groupby(enumerate(halves), key=lambda pair: pair[1] > 0)
        if is_filled
    )


def _shape(run: Iterable[int], halves: Sequence[int]) -> str:
    """Return the closed curve around neighbouring columns, along their upper edges and back along the lower ones."""
    places = list(run)
    middles = [(COLUMN * position + COLUMN // 2, halves[position]) for position in places]
    edge = [*middles, (COLUMN * (places[-1] + 1), 0)]
    start = COLUMN * places[0]
    drawn, at, height = [f"M{start} {HALF}"], start, 0
    for x, half in edge:
        middle = (at + x) // 2
        drawn.append(f"C{middle} {HALF - height} {middle} {HALF - half} {x} {HALF - half}")
        at, height = x, half
    for x, half in [*reversed(middles), (start, 0)]:
        middle = (at + x) // 2
        drawn.append(f"C{middle} {HALF + height} {middle} {HALF + half} {x} {HALF + half}")
        at, height = x, half
    return "".join(drawn) + "Z"
