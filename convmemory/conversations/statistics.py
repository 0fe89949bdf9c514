"""Statistics of a person's own archive: activity over time, agents, projects, models and tools.

Messages are counted once for each conversation (`count_changed`, in the background) and the counts stored in `Figures`.
The page sums those, so it costs the same few queries for any number of messages.
"""

from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date

from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Sum
from django.utils import timezone
from django.utils.formats import date_format

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, Figures
from convmemory.conversations.signals import conversations_counted
from convmemory.core.sql import load_sql

BATCH = 20  # conversations per statement
SHOWN = 12  # bars of agents, projects, models and tools
RANGES = (6, 18, 36)  # months that a chart can show
MONTHS_SHOWN = 18
CHARACTERS_A_TOKEN = 4  # an estimate, and the page says so


@dataclass(frozen=True, slots=True)
class Named:
    """A name and its number of occurrences; `share` is relative to the most frequent one, 0 to 100."""

    name: str
    count: int
    share: int


@dataclass(frozen=True, slots=True)
class Month:
    """The tokens of a month from `first` to `last`; the share is relative to the largest, 0 to 100."""

    first: date
    last: date
    label: str
    tokens: int
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
    def most_tokens(self) -> int:
        """Return the tokens of the busiest month that is shown."""
        return max(month.tokens for month in self.months)


def count_changed(*, archive_id: int) -> int:
    """Count some conversations that changed since the last count, and announce it; returns how many."""
    parameters: dict[str, int | str] = {
        "owner": archive_id,
        "limit": BATCH,
        "zone": timezone.get_default_timezone_name(),
    }
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.conversations", "count_figures"), parameters)
            ids = [number for (number,) in cursor.fetchall()]
        conversations_counted.send(Figures, archive_id=archive_id, conversation_ids=ids)
    return len(ids)


def uncounted(*, caller: Caller) -> int:
    """Return the number of the caller's conversations that changed since the last count."""
    same = Figures.objects.filter(
        archive_id=caller.archive_id,
        conversation=OuterRef("pk"),
        turns_version=OuterRef("turns_version"),
        message_count=OuterRef("message_count"),
        points__isnull=False,
    )
    return Conversation.objects.filter(~Exists(same), archive_id=caller.archive_id).count()


def statistics_of(*, caller: Caller, today: date | None = None, months: int = MONTHS_SHOWN) -> Statistics:
    """Return the caller's statistics, with the last `months` of activity. Six queries."""
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id).order_by()
    totals = of_caller.aggregate(count=Count("pk"), turns=Sum("turn_count"), messages=Sum("message_count"))
    activity = _activity(caller)
    return Statistics(
        conversations=totals["count"],
        turns=totals["turns"] or 0,
        messages=totals["messages"] or 0,
        tokens=sum(characters for _, characters in activity) // CHARACTERS_A_TOKEN,
        uncounted=uncounted(caller=caller),
        months=_months(activity, today or timezone.localdate(), months),
        agents=_most_frequent(caller, "agent", SHOWN),
        projects=_most_frequent(caller, "project", SHOWN),
        models=_named(_sums(caller, "models_of_owner")),
        tools=_named(_sums(caller, "tools_of_owner")),
    )


def _most_frequent(caller: Caller, column: str, limit: int) -> list[Named]:
    """Return the values of a column with the most conversations of the caller."""
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id).exclude(**{column: ""})
    return _named(of_caller.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)[:limit])


def _activity(caller: Caller) -> list[tuple[date, int]]:
    """Return days in order with their characters, without dates outside the calendar."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "activity_of_owner"), [caller.archive_id])
        rows = cursor.fetchall()
    days = []
    for text, characters in rows:
        with suppress(ValueError):
            days.append((date.fromisoformat(text), characters))
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


def _months(activity: Iterable[tuple[date, int]], today: date, shown: int) -> list[Month]:
    """Return the last months up to today, including empty ones."""
    sums: Counter[tuple[int, int]] = Counter()
    for day, characters in activity:
        sums[day.year, day.month] += characters
    number = today.year * 12 + today.month - 1
    months = [divmod(number - back, 12) for back in reversed(range(shown))]
    counts = [sums[year, month + 1] for year, month in months]
    return [
        Month(
            first=date(year, month + 1, 1),
            last=date(year, month + 1, monthrange(year, month + 1)[1]),
            label=date_format(date(year, month + 1, 1), "SHORT_MONTH_FORMAT"),
            tokens=characters // CHARACTERS_A_TOKEN,
            token_share=_share(characters, max(counts)),
        )
        for (year, month), characters in zip(months, counts, strict=True)
    ]
