"""Statistics of a person's own archive: activity over time, agents, projects, models and tools.

Messages are counted once for each conversation (`count_changed`, in the background) and the counts stored in `Figures`.
The page sums those, so it costs the same few queries for any number of messages.
"""

from calendar import monthrange
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import connection
from django.db.models import Count, F, Q, Sum
from django.utils import timezone
from django.utils.formats import date_format

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from convmemory.core.sql import load_sql

BATCH = 20  # conversations per statement
SHOWN = 12  # bars of agents, projects, models and tools
RANGES = (6, 18, 36)  # months that a chart can show
MONTHS_SHOWN = 18
CHARACTERS_A_TOKEN = 4  # an estimate, and the page says so
WEEKS_SHOWN = 53


@dataclass(frozen=True, slots=True)
class Named:
    """A name and its number of occurrences; `share` is relative to the most frequent one, 0 to 100."""

    name: str
    count: int
    share: int


@dataclass(frozen=True, slots=True)
class Day:
    """The messages of a day; `level` is 0 for none to 4 for the busiest quarter of days."""

    day: date
    messages: int
    level: int = 0


@dataclass(frozen=True, slots=True)
class Month:
    """The messages of a month from `first` to `last`; shares are relative to the largest, 0 to 100."""

    first: date
    last: date
    label: str
    messages: int
    tokens: int
    message_share: int
    token_share: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The values of the page. The messages of `uncounted` conversations are not included yet."""

    conversations: int
    turns: int
    messages: int
    tokens: int
    uncounted: int
    months: Sequence[Month]
    agents: Sequence[Named]
    projects: Sequence[Named]
    models: Sequence[Named]
    tools: Sequence[Named]

    @property
    def most_messages(self) -> int:
        """Return the messages of the busiest month that is shown."""
        return max(month.messages for month in self.months)

    @property
    def most_tokens(self) -> int:
        """Return the tokens of the busiest month that is shown."""
        return max(month.tokens for month in self.months)


# --- counting -------------------------------------------------------------------------------------


def count_changed(*, archive_id: int) -> int:
    """Count the messages of some conversations that changed since the last count; returns how many. One statement."""
    parameters: dict[str, int | str] = {
        "owner": archive_id,
        "limit": BATCH,
        "zone": timezone.get_default_timezone_name(),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "count_figures"), parameters)
        counted: int = cursor.rowcount
    return counted


def uncounted(*, caller: Caller) -> int:
    """Return the number of the caller's conversations that changed since the last count."""
    same = Q(figures__turns_version=F("turns_version"), figures__message_count=F("message_count"))
    own = Conversation.objects.filter(archive_id=caller.archive_id)
    return own.count() - own.filter(same).count()


# --- reading --------------------------------------------------------------------------------------


def statistics_of(*, caller: Caller, today: date | None = None, months: int = MONTHS_SHOWN) -> Statistics:
    """Return the caller's statistics, with the last `months` of activity. Seven queries."""
    own = Conversation.objects.filter(archive_id=caller.archive_id).order_by()
    totals = own.aggregate(count=Count("pk"), turns=Sum("turn_count"), messages=Sum("message_count"))
    activity = _activity(caller)
    return Statistics(
        conversations=totals["count"],
        turns=totals["turns"] or 0,
        messages=totals["messages"] or 0,
        tokens=sum(characters for _, _, characters in activity) // CHARACTERS_A_TOKEN,
        uncounted=uncounted(caller=caller),
        months=_months(activity, today or timezone.localdate(), months),
        agents=_most_frequent(caller, "agent", SHOWN),
        projects=top_projects(caller=caller, limit=SHOWN),
        models=_named(_sums(caller, "models_of_owner")),
        tools=_named(_sums(caller, "tools_of_owner")),
    )


def top_projects(*, caller: Caller, limit: int) -> list[Named]:
    """Return the projects with the most conversations of the caller."""
    return _most_frequent(caller, "project", limit)


def _most_frequent(caller: Caller, column: str, limit: int) -> list[Named]:
    """Return the values of a column with the most conversations of the caller."""
    own = Conversation.objects.filter(archive_id=caller.archive_id).exclude(**{column: ""})
    return _named(own.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)[:limit])


def days_of(*, caller: Caller, today: date | None = None) -> list[list[Day]]:
    """Return the days of the last year, in weeks that begin with Monday; the last week ends today. One query."""
    end = today or timezone.localdate()
    start = end - timedelta(days=end.weekday(), weeks=WEEKS_SHOWN - 1)
    messages = {day: count for day, count, _ in _activity(caller) if day >= start}
    busy = sorted(messages.values())
    limits = [busy[len(busy) * quarter // 4] for quarter in (1, 2, 3)] if busy else []
    days = [start + timedelta(days=number) for number in range((end - start).days + 1)]
    rows = [Day(day, messages.get(day, 0), _level(messages.get(day, 0), limits)) for day in days]
    return [rows[at : at + 7] for at in range(0, len(rows), 7)]


def _level(messages: int, limits: Sequence[int]) -> int:
    return 1 + sum(messages > limit for limit in limits) if messages else 0


def _activity(caller: Caller) -> list[tuple[date, int, int]]:
    """Return days in order with their messages and characters, without dates outside the calendar."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "activity_of_owner"), [caller.archive_id])
        rows = cursor.fetchall()
    days = []
    for text, messages, characters in rows:
        with suppress(ValueError):
            days.append((date.fromisoformat(text), messages, characters))
    return days


def _sums(caller: Caller, statement: str) -> list[tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", statement), [caller.archive_id, SHOWN])
        return list(cursor.fetchall())


def _named(rows: Iterable[tuple[str, int]]) -> list[Named]:
    pairs = list(rows)
    most = max((count for _, count in pairs), default=0)
    return [Named(name, count, _share(count, most)) for name, count in pairs]


def _share(count: int, most: int) -> int:
    return max(1, round(100 * count / most)) if count and most else 0


def _months(activity: Iterable[tuple[date, int, int]], today: date, shown: int) -> list[Month]:
    """Return the last months up to today, including empty ones."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for day, messages, characters in activity:
        before = sums.get((day.year, day.month), (0, 0))
        sums[day.year, day.month] = before[0] + messages, before[1] + characters
    number = today.year * 12 + today.month - 1
    months = [divmod(number - back, 12) for back in reversed(range(shown))]
    found = [sums.get((year, month + 1), (0, 0)) for year, month in months]
    most_messages, most_characters = (max(counts[at] for counts in found) for at in (0, 1))
    return [
        Month(
            first=date(year, month + 1, 1),
            last=date(year, month + 1, monthrange(year, month + 1)[1]),
            label=date_format(date(year, month + 1, 1), "SHORT_MONTH_FORMAT"),
            messages=messages,
            tokens=characters // CHARACTERS_A_TOKEN,
            message_share=_share(messages, most_messages),
            token_share=_share(characters, most_characters),
        )
        for (year, month), (messages, characters) in zip(months, found, strict=True)
    ]
