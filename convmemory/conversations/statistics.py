"""Statistics of a person's own archive: activity over time and by hours, agents, projects, models, tokens and tools.

Messages are counted once for each conversation (`count_changed`, in the background) and the counts stored in `Figures`.
The page sums those in one query, so it costs the same few queries for any number of messages.
"""

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date
from typing import Literal, NamedTuple

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import connection, transaction
from django.db.models import Count, Exists, OuterRef, Sum
from django.utils import timezone
from django.utils.dates import WEEKDAYS_ABBR
from django.utils.formats import date_format
from django.utils.translation import gettext

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation, Figures, project_name
from convmemory.conversations.signals import conversations_counted
from convmemory.core.sql import load_sql
from convmemory.core.templatetags.texts import short_count

BATCH = 20  # conversations per statement
NAMES = 1_000  # of models, and of tools, that are counted of a conversation
SHOWN = 12  # bars of agents, projects, models and tools
RANGES = (6, 18, 36)  # months that a chart can show
MONTHS_SHOWN = 18
CHARACTERS_A_TOKEN = 4  # an estimate, and the page says so


@dataclass(frozen=True, slots=True)
class Tokens:
    """What requests to models cost, as far as transcripts say: `reported` of the `answers` say it.

    `input` includes the `cached` tokens, which a server read from its cache.
    """

    answers: int = 0
    reported: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def sentence(self) -> str:
        """Return the tokens as a line of the page; "" if no answer reports them."""
        if not self.reported:
            return ""
        values = {
            "input": short_count(self.input), "output": short_count(self.output),
            "percent": round(100 * self.cached / self.input) if self.input else 0,
            "reported": intcomma(self.reported), "answers": intcomma(self.answers),
        }  # fmt: skip
        text = gettext("%(input)s in, %(percent)s%% cached, %(output)s out, in %(reported)s of %(answers)s answers")
        return text % values


@dataclass(frozen=True, slots=True)
class Named:
    """A name and its number of occurrences; `share` is relative to the most frequent one, 0 to 100."""

    name: str
    count: int
    share: int
    tokens: Tokens
    label: str


@dataclass(frozen=True, slots=True)
class Month:
    """The tokens of a month from `first` to `last`; the share is relative to the largest, 0 to 100."""

    first: date
    last: date
    label: str
    tokens: int
    token_share: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Hour:
    """The messages of an hour of a weekday; `share` is relative to the busiest one, 0 to 100."""

    label: str
    messages: int
    share: int


@dataclass(frozen=True, slots=True)
class Weekday:
    """A weekday with its 24 hours."""

    name: str
    hours: Sequence[Hour]


class Chart(NamedTuple):
    """Bars with a heading; each opens a page, on which `field` chooses what it counts."""

    id: str
    title: str
    unit: str
    rows: Sequence[Named]
    page: Literal["search", "library"]
    field: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """The values of the page. The messages of `uncounted` conversations are not included yet."""

    conversations: int
    turns: int
    messages: int
    tokens: int
    uncounted: int
    months: Sequence[Month]
    months_used: Sequence[Month]
    weekdays: Sequence[Weekday]
    used: Tokens
    charts: Sequence[Chart]

    @property
    def most_tokens(self) -> int:
        """Return the tokens of the busiest month that is shown."""
        return max(month.tokens for month in self.months)

    @property
    def most_used(self) -> int:
        """Return the tokens of the month whose requests cost most, of those that are shown."""
        return max(month.tokens for month in self.months_used)

    @property
    def time_zone(self) -> str:
        """Return the time zone of days and hours, which is that of all pages."""
        return timezone.get_default_timezone_name()


def count_changed(*, archive_id: int) -> int:
    """Count some conversations that changed since the last count, and announce it; returns how many."""
    parameters: dict[str, int | str] = {
        "owner": archive_id,
        "limit": BATCH,
        "names": NAMES,
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
        hours__isnull=False,
        archive_id=caller.archive_id,
        conversation=OuterRef("pk"),
        turns_version=OuterRef("turns_version"),
        message_count=OuterRef("message_count"),
        points__isnull=False,
    )
    return Conversation.objects.filter(~Exists(same), archive_id=caller.archive_id).count()


def statistics_of(*, caller: Caller, today: date | None = None, months: int = MONTHS_SHOWN) -> Statistics:
    """Return the caller's statistics, with the last `months` of activity. Five queries."""
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id).order_by()
    totals = of_caller.aggregate(count=Count("pk"), turns=Sum("turn_count"), messages=Sum("message_count"))
    # By kind and name, in order; of most kinds `answers` alone says something.
    sums: dict[str, dict[str, Tokens]] = defaultdict(dict)
    with connection.cursor() as cursor:
        parameters = {"owner": caller.archive_id, "shown": SHOWN}
        cursor.execute(load_sql("convmemory.conversations", "figures_of_owner"), parameters)
        for kind, name, *values in cursor.fetchall():
            sums[kind][name] = Tokens(*values)
    characters = {month: counts.answers // CHARACTERS_A_TOKEN for month, counts in sums["characters"].items()}
    used = sums["month"]
    today = today or timezone.localdate()
    numbers = (today.year * 12 + today.month - 1 - back for back in reversed(range(months)))
    firsts = [date(number // 12, number % 12 + 1, 1) for number in numbers]
    return Statistics(
        conversations=totals["count"],
        turns=totals["turns"] or 0,
        messages=totals["messages"] or 0,
        tokens=sum(counts.answers for counts in sums["characters"].values()) // CHARACTERS_A_TOKEN,
        uncounted=uncounted(caller=caller),
        months=_months(firsts, characters, {}),
        months_used=_months(
            firsts,
            {month: tokens.total for month, tokens in used.items()},
            {month: tokens.sentence for month, tokens in used.items()},
        ),
        weekdays=_weekdays({name: tokens.answers for name, tokens in sums["hour"].items()}),
        used=Tokens(*map(sum, zip(*map(astuple, used.values()), strict=True))),
        charts=[chart for chart in _charts(caller, sums) if chart.rows],
    )


def _charts(caller: Caller, sums: Mapping[str, Mapping[str, Tokens]]) -> Iterator[Chart]:
    conversations = gettext("conversations")
    agents, projects = _most_frequent(caller, "agent"), _most_frequent(caller, "project")
    projects = [replace(row, label=project_name(row.name) or row.name) for row in projects]
    yield Chart("by-agent", gettext("Programs"), conversations, agents, "search", "agent")
    yield Chart("by-project", gettext("Projects"), conversations, projects, "search", "project")
    models = _named((name, tokens.answers, tokens) for name, tokens in sums["model"].items())
    yield Chart("by-model", gettext("Models"), gettext("messages"), models, "library", "model")
    programs = _named((name, tokens.total, tokens) for name, tokens in sums["program"].items())
    yield Chart("used-by-agent", gettext("Tokens of models by program"), gettext("tokens"), programs, "search", "agent")
    tools = _named((name, tokens.answers, Tokens()) for name, tokens in sums["tool"].items())
    yield Chart("by-tool", gettext("Tools"), gettext("calls"), tools, "library", "tool")


def _most_frequent(caller: Caller, column: str) -> list[Named]:
    """Return the values of a column with the most conversations of the caller."""
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id).exclude(**{column: ""})
    rows = of_caller.order_by().values_list(column).annotate(n=Count("pk")).order_by("-n", column)[:SHOWN]
    return _named((name, count, Tokens()) for name, count in rows)


def _named(rows: Iterable[tuple[str, int, Tokens]]) -> list[Named]:
    named = list(rows)
    most = max((count for _, count, _ in named), default=0)
    return [Named(name, count, _share(count, most), tokens, name) for name, count, tokens in named]


def _share(count: int, most: int) -> int:
    return max(1, round(100 * count / most)) if count and most else 0


def _weekdays(messages: Mapping[str, int]) -> list[Weekday]:
    """Return the week by hours ("1-09" is from nine to ten on Mondays); empty without a message."""
    most = max(messages.values(), default=0)
    if not most:
        return []
    return [
        Weekday(
            str(WEEKDAYS_ABBR[day]),
            [
                Hour(f"{hour:02}", count, _share(count, most))
                for hour, count in ((hour, messages.get(f"{day + 1}-{hour:02}", 0)) for hour in range(24))
            ],
        )
        for day in range(7)
    ]


def _months(firsts: Sequence[date], tokens: Mapping[str, int], sentences: Mapping[str, str]) -> list[Month]:
    """Return the months that begin on these days, including empty ones; values are by month ("2026-05")."""
    counts = [tokens.get(f"{first:%Y-%m}", 0) for first in firsts]
    return [
        Month(
            first=first,
            last=first.replace(day=monthrange(first.year, first.month)[1]),
            label=date_format(first, "SHORT_MONTH_FORMAT"),
            tokens=count,
            token_share=_share(count, max(counts)),
            sentence=sentences.get(f"{first:%Y-%m}") or gettext("%(count)s tokens") % {"count": intcomma(count)},
        )
        for first, count in zip(firsts, counts, strict=True)
    ]
