"""Why an answer of a search is empty or incomplete, and what to do about it: one enumeration, worded once.

`TOOLS` has the sentences for models, programs and the terminal, in English; `PAGES` those for people, translated.
A search returns a `Reason` with its values as an `Explanation`; surfaces only show it. Each sentence
states facts that `explain_empty` has read. Source: docs/adr/0083-reasons-of-empty-answers.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.filters import EXACT, Filters, each_name
from convmemory.conversations.models import Conversation
from convmemory.conversations.names import nearest_names, with_known_names
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.documents.models import Document
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import KIND as TURNS
from search.adapters.documents import KIND as SECTIONS
from search.query_text import QueryText
from search.retrieval.filters import filter_sql
from search.retrieval.source_filters import source_conditions
from search.sources import kinds_without_vectors

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class Reason(StrEnum):
    """Why an answer is empty, or not all that could be found."""

    NO_CALLER = "no_caller"
    NOTHING_STORED = "nothing_stored"
    FILTERED_OUT = "filtered_out"
    NO_MATCH = "no_match"
    BELOW_BAR = "below_bar"
    IN_CONTEXT = "in_context"
    NONE_ATTACHED = "none_attached"
    NOT_ATTACHED = "not_attached"
    NOT_READY = "not_ready"
    PENDING = "pending"
    PAST_END = "past_end"


TOOLS: Mapping[Reason, str] = {
    Reason.NO_CALLER: "user identity required: no user is signed in, so there is nothing to search",
    Reason.NOTHING_STORED: "no chat history found: nothing of this kind is stored yet. Import or add some first.",
    Reason.FILTERED_OUT: "Nothing stored passes the filters%(unknown)s. Change or leave out a filter.",
    Reason.NO_MATCH: "Nothing found contains these words. Use other words, or a full question.",
    Reason.BELOW_BAR: "Nothing found seems to answer this%(rest)s.",
    Reason.IN_CONTEXT: "All that was found is in your context already: nothing is repeated.",
    Reason.NONE_ATTACHED: "No document is attached to this conversation: attach one on its page, or name none.",
    Reason.NOT_ATTACHED: "This document is not attached to the conversation: attach it, or leave out document_id.",
    Reason.NOT_READY: "%(documents)s cannot be searched: %(states)s. Search again once it is read, or upload it again.",
    Reason.PENDING: "%(waiting)s. Search again later for all.",
    Reason.PAST_END: "This is past the end: there is nothing more. Start again from the beginning.",
}
PAGES: Mapping[Reason, "StrOrPromise"] = {
    Reason.NO_CALLER: _("You are not signed in: there is nothing to search."),
    Reason.NOTHING_STORED: _("Nothing is stored yet: import conversations or add documents first."),
    Reason.FILTERED_OUT: _("Nothing stored passes the filters%(unknown)s. Change or remove a filter."),
    Reason.NO_MATCH: _("Nothing found contains these words."),
    Reason.BELOW_BAR: _("Nothing found seems to answer this%(rest)s."),
    Reason.IN_CONTEXT: _("All that was found is in the model's context already."),
    Reason.NONE_ATTACHED: _("No document is attached to this conversation: attach one on its page."),
    Reason.NOT_ATTACHED: _("This document is not attached to the conversation: attach it first."),
    Reason.NOT_READY: _("%(documents)s cannot be searched: %(states)s."),
    Reason.PENDING: _("Not everything can be found yet: %(waiting)s."),
    Reason.PAST_END: _("There is nothing more: this is past the end of the results."),
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason with the values that its sentence names; `for_pages` are those in the language of the page."""

    reason: Reason
    values: Mapping[str, str] = field(default_factory=dict)
    page_values: "Mapping[str, StrOrPromise]" = field(default_factory=dict)

    @property
    def for_tools(self) -> str:
        return TOOLS[self.reason] % self.values

    @property
    def for_pages(self) -> str:
        return str(PAGES[self.reason]) % (self.page_values or self.values)


ONLY_NEAREST = Explanation(
    Reason.BELOW_BAR,
    {"rest": "; what follows is only the nearest"},
    {"rest": _("; what follows is only the nearest")},
)
NOTHING_BROUGHT = Explanation(
    Reason.BELOW_BAR,
    {"rest": ": a search shows what comes nearest"},
    {"rest": _(": a search shows what comes nearest")},
)
NOT_SIMILAR = Explanation(
    Reason.BELOW_BAR,
    {"rest": " at this similarity: a lower threshold brings back more"},
    {"rest": _(" at this similarity: a lower one brings back more")},
)


EMPTY = {Reason.NO_MATCH: 0, Reason.FILTERED_OUT: 1, Reason.NOT_READY: 2}
"""In this order, the reasons of archives that show nothing say more of what is stored in all of them."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Counts what a search may miss because it waits for a worker.

    By kind of source: the items that wait, those of them that a search by words may miss, too, and how many there are.
    `unread` documents are being read; of a document whose new version is read, the old one is searched. `imports` have
    not ended; what they have stored so far is found.
    """

    kinds: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    unread: int = 0
    imports: int = 0

    @property
    def items(self) -> int:
        """Return the number of items that wait; such a document or import counts as one."""
        return self.unread + self.imports + sum(waiting for waiting, _, _ in self.kinds.values())

    @property
    def explanation(self) -> Explanation | None:
        """Return the note on what is pending; None if nothing is."""
        parts, shown = [], []
        for kind, (waiting, without_words, total) in self.kinds.items():
            name = _NAMES.get(kind, "items")
            for count, in_tools, on_page in (
                (waiting - without_words, "not yet searchable by meaning, only by words", _ONLY_BY_WORDS),
                (without_words, "perhaps not found yet", _PERHAPS_NOT),
            ):
                if count:
                    parts.append(f"{count:,} of {total:,} {name} {'is' if count == 1 else 'are'} {in_tools}")
                    counted = {"pending": f"{count:,}", "total": f"{total:,}"}
                    shown.append(on_page % {"counts": str(_PAGE_NAMES.get(kind, _PAGE_NAMES[""])) % counted})
        if self.unread:
            parts.append(f"{self.unread:,} {'document is' if self.unread == 1 else 'documents are'} being read")
            shown.append(
                ngettext("%(count)s document is being read", "%(count)s documents are being read", self.unread)
                % {"count": f"{self.unread:,}"}
            )
        if self.imports:
            parts.append(f"{self.imports:,} {'import has' if self.imports == 1 else 'imports have'} not ended")
            shown.append(
                ngettext("%(count)s import has not ended", "%(count)s imports have not ended", self.imports)
                % {"count": f"{self.imports:,}"}
            )
        if not parts:
            return None
        return Explanation(Reason.PENDING, {"waiting": "; ".join(parts)}, {"waiting": "; ".join(shown)})


def pending_of_all(each: Iterable[Pending]) -> Pending:
    """Return what waits in several archives together."""
    kinds: dict[str, tuple[int, int, int]] = {}
    unread = imports = 0
    for pending in each:
        unread += pending.unread
        imports += pending.imports
        for kind, counts in pending.kinds.items():
            first, second, third = kinds.get(kind, (0, 0, 0))
            kinds[kind] = (first + counts[0], second + counts[1], third + counts[2])
    return Pending(kinds, unread, imports)


NOTHING_PENDING = Pending()
_NAMES = {"conversation": "turns", "document": "sections"}
_PAGE_NAMES: Mapping[str, "StrOrPromise"] = {
    "conversation": _("%(pending)s of %(total)s turns"),
    "document": _("%(pending)s of %(total)s sections"),
    "": _("%(pending)s of %(total)s items"),
}
_ONLY_BY_WORDS = _("%(counts)s only by words, not by meaning")
_PERHAPS_NOT = _("%(counts)s perhaps not at all")


def pending_of(archive_id: int, filters: Filters, *, space: EmbeddingSpace | None) -> Pending:
    """Return what of the owner's passes the filters and may be missed by a search in the space, or without a space by
    one that goes by words alone. One query, of filters with full names.
    """
    filters = with_known_names(archive_id, filters)
    conditions, parameters = source_conditions(filters, "e")
    statement = load_sql("search", "pending_items").replace("{filters}", " AND ".join(conditions) or "TRUE")
    parameters |= {
        "owner": archive_id,
        "space": space and space.pk,
        "max_attempts": EMBEDDING.max_attempts,
        "without_vectors": kinds_without_vectors(),
        "documents": None if filters.documents is None else sorted(filters.documents),
    }
    rows = PendingQuery(statement, parameters).rows()
    kinds = {str(kind): (int(waiting), int(words), int(total)) for kind, waiting, words, total in rows}
    unread, imports, _ = kinds.pop("")
    # Neither can be archived or be one conversation. A document has no program or project; of an import none is known
    # before it has ended.
    is_of_any = not (filters.archived or filters.conversation_id)
    counts_unread = is_of_any and not filters.chosen("=") and (not filters.kinds or SECTIONS in filters.kinds)
    counts_imports = is_of_any and (not filters.kinds or TURNS in filters.kinds)
    return Pending(kinds, unread if counts_unread else 0, imports if counts_imports else 0)


def explanation_of_all(explanations: Iterable[Explanation]) -> Explanation | None:
    """Return the explanation of one archive that is true of all archives that show nothing; None without any.

    A name that is unknown in one archive can be known in another: an explanation that names none comes first.
    """
    return min(
        explanations,
        key=lambda each: (EMPTY.get(each.reason, len(EMPTY)), bool(each.values.get("unknown"))),
        default=None,
    )


def explain_empty(*, archive_id: int, filters: Filters, pending: Pending, text: QueryText | None = None) -> Explanation:
    """Return why a search with these filters, and the operators of `text`, found nothing. A few queries."""
    filters = with_known_names(archive_id, filters)
    if filters.documents is not None and (unready := _unready(archive_id, filters.documents)):
        return unready
    condition, parameters = filter_sql(replace(filters, except_turns=()), text or QueryText(""))
    statement = load_sql("search", "passes_any").replace("{filters}", condition)
    parameters |= {"owner": archive_id, "kinds": sorted(filters.kinds)}
    ((has_items, has_eligible),) = PendingQuery(statement, parameters).rows()
    if not has_items:
        waiting = _unready(archive_id, None) if not filters.kinds or SECTIONS in filters.kinds else None
        return waiting or pending.explanation or Explanation(Reason.NOTHING_STORED)
    if not has_eligible:
        return filtered_out(archive_id, filters)
    return pending.explanation or Explanation(Reason.NO_MATCH)


def explain_no_conversation(archive_id: int, filters: Filters) -> Explanation:
    """Return why no conversation is listed with these filters."""
    if not Conversation.objects.filter(archive_id=archive_id).exists():
        return Explanation(Reason.NOTHING_STORED)
    return filtered_out(archive_id, filters)


def filtered_out(archive_id: int, filters: Filters) -> Explanation:
    """Return that nothing passes the filters, with the nearest names in place of unknown ones."""
    reasons, on_page = [], []
    chosen = [(name, value) for name in EXACT for value in each_name(getattr(filters, name))]
    for name, value in chosen:
        near = nearest_names(archive_id, name, value)
        if near is None:
            continue
        listed = ", ".join(repr(other) for other in near)
        reasons.append(f"there is no {name} {value!r}" + (f", the nearest are {listed}" if near else ""))
        shown = {"value": value, "nearest": listed}
        on_page.append(
            gettext("“%(value)s” is unknown, the nearest are %(nearest)s") % shown
            if near
            else gettext("“%(value)s” is unknown") % shown
        )
    return Explanation(
        Reason.FILTERED_OUT,
        {"unknown": f": {'; '.join(reasons)}" if reasons else ""},
        {"unknown": f": {'; '.join(on_page)}" if on_page else ""},
    )


_NAMED_DOCUMENTS = 5
_STATES = {
    "uploaded": "waiting to be read",
    "processing": "being read",
    "failed": "reading it failed",
}


def _unready(archive_id: int, documents: frozenset[int] | None) -> Explanation | None:
    """Return that all of these documents of the owner (None: any) are not read; None if one is, or none exists."""
    chosen: dict[str, Any] = {} if documents is None else {"pk__in": documents}
    rows = list(Document.objects.filter(archive_id=archive_id, **chosen).order_by("pk")[:_NAMED_DOCUMENTS])
    if not rows or any(row.version for row in rows):
        return None
    names = ", ".join(repr(row.title or row.name) for row in rows)
    states = ", ".join(dict.fromkeys(_STATES[row.status] for row in rows))
    shown = ", ".join(dict.fromkeys(str(row.get_status_display()) for row in rows))
    return Explanation(Reason.NOT_READY, {"documents": names, "states": states}, {"documents": names, "states": shown})
