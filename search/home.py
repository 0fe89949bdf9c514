"""The contents of the home page: recent conversations, activity, and the state of the index.

Each function takes the caller. The page takes the same few queries however large the archive is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser

from convmemory.conversations.filters import EVERYTHING
from convmemory.conversations.import_models import Import
from convmemory.conversations.imports import imports_of
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import page_of_conversations, project_name
from convmemory.conversations.statistics import Day, Named, days_of, top_projects, uncounted
from search.indexing.status import IndexStatus, index_status

RECENT_SHOWN = 6
PROJECTS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class RecentRow:
    """A recent conversation; `last_turn` is the number of its latest turn, None if it has none."""

    conversation: Conversation
    project_name: str
    last_turn: int | None


@dataclass(frozen=True, slots=True)
class Home:
    """The home page.

    `weeks` are the days of the last year; `uncounted` is the number of conversations still to count.
    """

    recent: Sequence[RecentRow]
    weeks: Sequence[Sequence[Day]]
    projects: Sequence[tuple[Named, str]]
    index: IndexStatus
    last_import: Import | None
    uncounted: int

    @property
    def is_new(self) -> bool:
        """Return whether the archive is empty, so that the page explains how to fill it."""
        return not self.recent and not self.index.messages

    @property
    def percent_indexed(self) -> int:
        return 100 * self.index.embedded_turns // self.index.turns if self.index.turns else 100

    @property
    def active_days(self) -> int:
        return sum(day.messages > 0 for week in self.weeks for day in week)


def home_of(*, owner: AbstractBaseUser) -> Home:
    """Return the caller's home page."""
    recent, _ = page_of_conversations(owner=owner, filters=EVERYTHING, limit=RECENT_SHOWN)
    projects = top_projects(owner=owner, limit=PROJECTS_SHOWN)
    return Home(
        recent=[
            RecentRow(row, project_name(row.project), row.turn_count - 1 if row.turn_count else None) for row in recent
        ],
        weeks=days_of(owner=owner),
        projects=[(row, project_name(row.name) or row.name) for row in projects],
        index=index_status(owner=owner),
        last_import=next(iter(imports_of(owner=owner, limit=1)), None),
        uncounted=uncounted(owner=owner),
    )
