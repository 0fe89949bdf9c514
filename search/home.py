"""The home page: recent conversations, activity, and whether the whole archive is indexed.

Each function takes the caller. The page takes the same few queries however large the archive is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.humanize.templatetags.humanize import intcomma
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import ngettext

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import PageRequest
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.importing.imports import imports_of
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.views import values_of_where_to_get
from convmemory.conversations.models import Conversation, project_name
from convmemory.conversations.reading import page_of_conversations
from convmemory.conversations.statistics import Day, Named, days_of, top_projects, uncounted
from convmemory.conversations.tasks import enqueue_count
from search.indexing.status import IndexStatus, index_status

RECENT_SHOWN = 6
PROJECTS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Home:
    """The home page.

    `weeks` are the days of the last year; `uncounted` is the number of conversations still to count.
    """

    recent: Sequence[Conversation]
    weeks: Sequence[Sequence[Day]]
    projects: Sequence[tuple[Named, str]]
    index: IndexStatus
    last_import: Import | None
    uncounted: int

    @property
    def is_new(self) -> bool:
        """Return whether the archive is empty, so that the page explains how to fill it."""
        index = self.index
        return not (self.recent or index.items or index.unread_documents or index.unfinished_imports)

    @property
    def active_days(self) -> int:
        return sum(day.messages > 0 for week in self.weeks for day in week)


def home_of(*, caller: Caller) -> Home:
    """Return the caller's home page."""
    recent, _ = page_of_conversations(caller=caller, filters=EVERYTHING, limit=RECENT_SHOWN)
    projects = top_projects(caller=caller, limit=PROJECTS_SHOWN)
    return Home(
        recent=recent,
        weeks=days_of(caller=caller),
        projects=[(row, project_name(row.name) or row.name) for row in projects],
        index=index_status(caller=caller),
        last_import=next(iter(imports_of(caller=caller, limit=1)), None),
        uncounted=uncounted(caller=caller),
    )


# --- home page ------------------------------------------------------------------------------------
# Provides the values of the home page: its contents, and the URLs that a new user needs.


def home_values(request: PageRequest) -> dict[str, Any]:
    """Return the values for the template `home/home.html`, and enqueue the counting of changed conversations."""
    home = home_of(caller=request.caller)
    if home.uncounted:
        enqueue_count(request.caller.archive_id)
    return values_of_where_to_get(request) | {"home": home, "heatmap": heatmap_of(home.weeks)}


# --- heatmap --------------------------------------------------------------------------------------
# The days of the last year for the home page: the number of messages on each, in words, with a link to it.
#
# The words of each day are assembled here, once: a template would take longer for them than for the rest of the page.


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
