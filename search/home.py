"""The home page: the river of time, recent conversations, this day in earlier years, and whether all is indexed.

A search by time alone shows the same picture of that time, with what was worked on. Each function takes the caller;
the pages take the same few queries however large the archive is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import PageRequest
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.importing.imports import imports_of
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.views import upload_values
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.periods import Point, on_this_day, points_in, summary_of
from convmemory.conversations.reading import page_of_conversations
from convmemory.conversations.river import By, Period, River, river_of
from convmemory.conversations.statistics import uncounted
from convmemory.conversations.tasks import enqueue_count
from search.indexing.status import IndexStatus, index_status

RECENT_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Home:
    """The home page. `uncounted` conversations are not in the river yet, or have changed since."""

    river: River | None
    points: Sequence[Point]
    recent: Sequence[Conversation]
    this_day: Sequence[Conversation]
    index: IndexStatus
    last_import: Import | None
    uncounted: int

    @property
    def is_new(self) -> bool:
        """Return whether the archive is empty, so that the page explains how to fill it."""
        index = self.index
        return not (self.recent or index.items or index.unread_documents or index.unfinished_imports)


def home_of(
    *, caller: Caller, by: By = "project", today: date | None = None, newest: Sequence[Conversation] | None = None
) -> Home:
    """Return the caller's home page; `newest` are the newest conversations, if they are loaded already."""
    day = today or timezone.localdate()
    if newest is None:
        newest, _ = page_of_conversations(caller=caller, filters=EVERYTHING, limit=RECENT_SHOWN)
    river = river_of(caller=caller, by=by, today=day)
    return Home(
        river=river,
        points=points_in(caller=caller, period=river.period) if river else (),
        recent=newest[:RECENT_SHOWN],
        this_day=on_this_day(caller=caller, today=day),
        index=index_status(caller=caller),
        last_import=next(iter(imports_of(caller=caller, limit=1)), None),
        uncounted=uncounted(caller=caller),
    )


def home_values(request: PageRequest, newest: Sequence[Conversation] | None = None) -> dict[str, Any]:
    """Return the values for the template `home/home.html`, and enqueue the counting of changed conversations."""
    home = home_of(caller=request.caller, by=_by(request), newest=newest)
    if home.uncounted:
        enqueue_count(request.caller.archive_id)
    return upload_values() | {
        "home": home,
        "river": home.river,
        "points": home.points,
        "username": request.user.get_username(),
        "upload_address": request.build_absolute_uri(reverse("api:upload")),
    }


def period_of(box: SearchBox) -> Period | None:
    """Return the time of a search that is for a time alone, from a day on; None for other searches."""
    if not box.after or box.parameters.keys() - {"after", "before"}:
        return None
    try:
        first, last = (parse_date(text) if text else timezone.localdate() for text in (box.after, box.before))
    except ValueError:
        return None
    return Period(first, last) if first and last and first <= last else None


def period_values(request: PageRequest, period: Period) -> dict[str, Any]:
    """Return the values for the template `home/period.html`."""
    river = river_of(caller=request.caller, by=_by(request), today=timezone.localdate(), period=period)
    return {
        "period": period,
        "river": river,
        "points": points_in(caller=request.caller, period=river.period) if river else (),
        "summary": summary_of(caller=request.caller, period=period),
    }


def _by(request: PageRequest) -> By:
    return "program" if request.GET.get("by") == "program" else "project"
