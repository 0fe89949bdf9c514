"""Counts the indexed part of an archive: for the page's progress bar, the dashboard and the metrics."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.humanize.templatetags.humanize import intcomma
from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from convmemory.accounts.callers import Caller
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Counts over one owner: turns and sections are counted separately, `pending` and `failed` are both together.

    `without_words` are pending items that a search by words may not find yet, because a worker stores their words: of
    what was put back from the trash or moved, changed without a signal, or stored by an earlier version.
    `unread_documents` are being read, `unfinished_imports` have not ended; what is in them is not counted yet.
    """

    turns: int
    embedded_turns: int
    messages: int
    passages: int
    pending: int
    failed: int
    sections: int = 0
    embedded_sections: int = 0
    without_words: int = 0
    unread_documents: int = 0
    unfinished_imports: int = 0

    @property
    def items(self) -> int:
        return self.turns + self.sections

    @property
    def embedded_items(self) -> int:
        return self.embedded_turns + self.embedded_sections

    @property
    def percent(self) -> int:
        """Return the share of items that are indexed."""
        return 100 * self.embedded_items // self.items if self.items else 100

    @property
    def sentence(self) -> str:
        """Return what can be found: what waits, else what failed, else that all is indexed."""
        if self.failed and not self.pending:
            return self.failed_sentence
        if not self.pending:
            turns = ngettext("%(turns)s turn is indexed.", "All %(turns)s turns are indexed.", self.turns)
            sections = ngettext(
                "%(sections)s section is indexed.", "All %(sections)s sections are indexed.", self.sections
            )
            parts = ((turns, "turns", self.turns or not self.sections), (sections, "sections", self.sections))
            return " ".join(text % {name: intcomma(getattr(self, name))} for text, name, is_shown in parts if is_shown)
        if not self.sections:
            waiting = _("%(pending)s of %(all)s turns wait to be indexed by meaning (%(percent)s%% done)")
        elif not self.turns:
            waiting = _("%(pending)s of %(all)s sections wait to be indexed by meaning (%(percent)s%% done)")
        else:
            waiting = _("%(pending)s of %(all)s turns and sections wait to be indexed by meaning (%(percent)s%% done)")
        counts = {"pending": intcomma(self.pending), "all": intcomma(self.items), "percent": self.percent}
        words = _("search by words finds them already.")
        if self.without_words:
            words = ngettext(
                "%(number)s of them waits for its words, too.",
                "%(number)s of them wait for their words, too.",
                self.without_words,
            ) % {"number": intcomma(self.without_words)}
        return f"{waiting % counts}; {words}"

    @property
    def failed_sentence(self) -> str:
        """Return how much only a search by words finds."""
        if self.sections:
            text = ngettext(
                "%(failed)s turn or section could not be indexed by meaning; search by words finds it.",
                "%(failed)s turns or sections could not be indexed by meaning; search by words finds them.",
                self.failed,
            )
        else:
            text = ngettext(
                "%(failed)s turn could not be indexed by meaning; search by words finds it.",
                "%(failed)s turns could not be indexed by meaning; search by words finds them.",
                self.failed,
            )
        return text % {"failed": intcomma(self.failed)}

    @property
    def progress(self) -> str:
        """Return how far the indexing of turns, of sections or of both has come."""
        turns = {"done": intcomma(self.embedded_turns), "all": intcomma(self.turns)}
        sections = {"done": intcomma(self.embedded_sections), "all": intcomma(self.sections)}
        if not self.turns:
            return _("Indexing: %(done)s of %(all)s sections") % sections
        text = _("Indexing: %(done)s of %(all)s turns") % turns
        return ", ".join([text, _("%(done)s of %(all)s sections") % sections]) if self.sections else text


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """Counts over one owner or over all owners.

    Of the items, `pending` wait for a worker, `given_up` belong to sources without attempts left, and `failed` were
    refused individually; the same counts of sections alone follow. The last three are as in `IndexStatus`. The first
    change that waits was stored at `behind_since`, None if nothing waits, or only what is indexed again.
    """

    behind_since: datetime | None
    sources: int
    items: int
    elements: int
    passages: int
    pending: int
    given_up: int
    failed: int
    sections: int
    pending_sections: int
    given_up_sections: int
    failed_sections: int
    without_words: int
    unread_documents: int
    unfinished_imports: int


@dataclass(frozen=True, slots=True)
class IndexingPace:
    """The progress of indexing: items a minute, and the minutes that the rest takes at this pace; None if unknown."""

    per_minute: int | None = None
    minutes_left: int | None = None


def index_status(*, caller: Caller) -> IndexStatus:
    """Return the caller's counts. One query over the caller's sources and their index states."""
    counts = count_index(archive_id=caller.archive_id)
    failed_sections = counts.failed_sections + counts.given_up_sections
    failed_turns = counts.failed + counts.given_up - failed_sections
    turns, pending_turns = counts.items - counts.sections, counts.pending - counts.pending_sections
    return IndexStatus(
        turns=turns,
        embedded_turns=max(0, turns - pending_turns - failed_turns),
        messages=counts.elements - counts.sections,
        passages=counts.passages,
        pending=counts.pending,
        failed=failed_turns + failed_sections,
        sections=counts.sections,
        embedded_sections=max(0, counts.sections - counts.pending_sections - failed_sections),
        without_words=counts.without_words,
        unread_documents=counts.unread_documents,
        unfinished_imports=counts.unfinished_imports,
    )


# The pace is that of this many seconds, or of this many vectors if they were stored in less time.
PACE_S, PACE_VECTORS = 60, 2_000
LEAST_PACE_S = 5  # of a shorter time, a pace says nothing


def indexing_pace(*, caller: Caller, pending: int) -> IndexingPace:
    """Return how fast the caller's items are being indexed. One query."""
    parameters: dict[str, Any] = {
        "owner": caller.archive_id,
        "now": timezone.now(),
        "rows": PACE_VECTORS,
        "seconds": PACE_S,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "indexing_pace"), parameters)
        items, seconds = cursor.fetchone()
    if not items or seconds < LEAST_PACE_S:
        return IndexingPace()
    per_minute = max(1, round(60 * items / float(seconds)))
    return IndexingPace(per_minute, -(-pending // per_minute))


def count_index(*, archive_id: int | None) -> IndexCounts:
    """Return the counts of one owner, or of the whole installation if it is None. One query."""
    parameters = {"owner": archive_id, "space": active_space().pk, "max_attempts": EMBEDDING.max_attempts}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "index_status"), parameters)
        *counts, behind_since = cursor.fetchone()
    return IndexCounts(behind_since, *map(int, counts))
