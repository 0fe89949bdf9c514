"""The days of the last year for the home page: the number of messages on each, in words, with a link to it.

The words of each day are assembled here, once: a template would take longer for them than for the rest of the page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.humanize.templatetags.humanize import intcomma
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import ngettext

from convmemory.conversations.statistics import Day


@dataclass(frozen=True, slots=True)
class HeatmapDay:
    """A day; `said` and `address` are "" if it has no messages."""

    level: int
    said: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class HeatmapWeek:
    """Days from Monday on; `month` is the name of the month that begins in the week."""

    month: str
    days: tuple[HeatmapDay, ...]


def heatmap_of(weeks: Iterable[Sequence[Day]]) -> list[HeatmapWeek]:
    """Return the weeks in their order, none of them empty, in the language of the page."""
    search = reverse("search")
    return [
        HeatmapWeek(
            month=date_format(week[0].day, "M") if week[0].day.day <= 7 else "",
            days=tuple(_shown(day, search) for day in week),
        )
        for week in weeks
    ]


def _shown(day: Day, search: str) -> HeatmapDay:
    if not day.messages:
        return HeatmapDay(day.level)
    said = ngettext("%(date)s: %(messages)s message", "%(date)s: %(messages)s messages", day.messages)
    named = {"date": date_format(day.day), "messages": intcomma(day.messages)}
    return HeatmapDay(day.level, said % named, f"{search}?after={day.day.isoformat()}&before={day.day.isoformat()}")
