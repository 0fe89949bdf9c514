"""The home page: the river of time, recent conversations, this day in earlier years, and whether all is indexed.

A search by time alone shows the same picture of that time, with what was worked on. Each function takes the caller;
the pages take the same few queries however large the archive is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from convmemory.accounts.pages import PageRequest
from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.importing.imports import imports_of
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.views import values_of_where_to_get
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.periods import Points, on_this_day, points_in, summary_of
from convmemory.conversations.reading import page_of_conversations
from convmemory.conversations.river import By, Period, river_of
from convmemory.conversations.statistics import uncounted
from convmemory.conversations.tasks import enqueue_count
from search.indexing.status import IndexStatus, index_status
from search.pages.chips import day_of

RECENT_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Home:
    """The home page. `changed` says how many conversations of each archive changed since the last count."""

    recent: Sequence[Conversation]
    this_day: Sequence[Conversation]
    index: IndexStatus
    last_import: Import | None
    changed: Mapping[int, int]

    @property
    def uncounted(self) -> int:
        return sum(self.changed.values())

    @property
    def is_new(self) -> bool:
        """Return whether the archive is empty, so that the page explains how to fill it."""
        index = self.index
        return not (self.recent or index.items or index.unread_documents or index.unfinished_imports)


def home_values(request: PageRequest, newest: Sequence[Conversation] | None = None) -> dict[str, Any]:
    """Return the values for the template `home/home.html`, and enqueue the counting of changed conversations.

    `newest` are the newest conversations, if they are loaded already.
    """
    caller, today = request.caller, timezone.localdate()
    if newest is None:
        newest, _ = page_of_conversations(caller=caller, filters=EVERYTHING, limit=RECENT_SHOWN)
    river = river_of(caller=caller, by=_by(request), today=today)
    points = points_in(caller=caller, river=river) if river else Points()
    home = Home(
        recent=newest[:RECENT_SHOWN],
        this_day=on_this_day(caller=caller, today=today),
        index=index_status(caller=caller),
        last_import=next(iter(imports_of(caller=caller, limit=1)), None),
        changed=river.uncounted if river else {caller.archive_id: uncounted(caller=caller)},
    )
    for access in caller.archives if home.uncounted else ():
        if home.changed.get(access.archive_id):
            with caller.in_(access):
                enqueue_count(access.archive_id)
    return values_of_where_to_get(request) | {"home": home, "river": river, "points": points}


def period_of(box: SearchBox) -> Period | None:
    """Return the time of a search that is for a time alone, from a day on; None for other searches."""
    if not box.after or box.parameters.keys() - {"after", "before"}:
        return None
    first, last = (day_of(text) if text else timezone.localdate() for text in (box.after, box.before))
    return Period(first, last) if first and last and first <= last else None


def period_values(request: PageRequest, period: Period) -> dict[str, Any]:
    """Return the values for the template `home/period.html`."""
    today = timezone.localdate()
    river = river_of(caller=request.caller, by=_by(request), today=today, period=period)
    return {
        "period": period,
        "ways": [other for other in period.ways if other.first <= today],
        "river": river,
        "points": points_in(caller=request.caller, river=river) if river else Points(),
        "summary": summary_of(caller=request.caller, period=period),
    }


def _by(request: PageRequest) -> By:
    """Return what the bands are; those of spaces are for members, outside of an open space."""
    if request.GET.get("by") == "space" and request.caller.spaces and not request.caller.space:
        return "space"
    return "program" if request.GET.get("by") == "program" else "project"
