"""Why an answer of a search is empty or incomplete, and what to do about it: one enumeration, worded once.

`TOOLS` has the sentences for models, programs and the terminal, in English; `PAGES` those for people, translated.
A search returns a `Reason` with its values as an `Explanation`; surfaces only show it. Each sentence
states facts that `explain_empty` has read. Source: docs/adr/0083-reasons-of-empty-answers.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.filters import EXACT, Filters, each_name
from convmemory.conversations.models import Conversation
from convmemory.conversations.names import nearest_names, with_known_names
from convmemory.core.queue.queueing import EMBEDDING
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.documents.models import Document
from convmemory.embeddings.spaces import active_space
from search.adapters.documents import KIND as SECTIONS
from search.models import Source
from search.query_text import QueryText
from search.retrieval.filters import filter_sql, source_conditions

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
    Reason.NO_CALLER: "user identity required: nobody is signed in, so there is nothing to search",
    Reason.NOTHING_STORED: "no chat history found: nothing of this kind is stored yet. Import or add some first.",
    Reason.FILTERED_OUT: "Nothing stored passes the filters%(unknown)s. Change or leave out a filter.",
    Reason.NO_MATCH: "Nothing found contains these words. Use other words, or a full question.",
    Reason.BELOW_BAR: "Nothing found seems to answer this%(rest)s.",
    Reason.IN_CONTEXT: "All that was found is in your context already: nothing is repeated.",
    Reason.NONE_ATTACHED: "No document is attached to this conversation: attach one on its page, or name none.",
    Reason.NOT_ATTACHED: "This document is not attached to the conversation: attach it, or leave out document_id.",
    Reason.NOT_READY: "%(documents)s cannot be searched: %(states)s. Search again once it is read, or upload it again.",
    Reason.PENDING: "%(counts)s not yet searchable by meaning, only by words. Search again later for all.",
    Reason.PAST_END: "This is past the end: there is nothing more. Start again from the beginning.",
}
PAGES: Mapping[Reason, "StrOrPromise"] = {
    Reason.NO_CALLER: _("Nobody is signed in: there is nothing to search."),
    Reason.NOTHING_STORED: _("Nothing is stored yet: import conversations or add documents first."),
    Reason.FILTERED_OUT: _("Nothing stored passes the filters%(unknown)s. Change or remove a filter."),
    Reason.NO_MATCH: _("Nothing found contains these words."),
    Reason.BELOW_BAR: _("Nothing found seems to answer this%(rest)s."),
    Reason.IN_CONTEXT: _("All that was found is in the model's context already."),
    Reason.NONE_ATTACHED: _("No document is attached to this conversation: attach one on its page."),
    Reason.NOT_ATTACHED: _("This document is not attached to the conversation: attach it first."),
    Reason.NOT_READY: _("%(documents)s cannot be searched: %(states)s."),
    Reason.PENDING: _("Not yet searchable by meaning, only by words: %(counts)s."),
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


# --- pending --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pending:
    """How many items of each kind of source wait for vectors, and how many there are: (kind, pending, total)."""

    kinds: tuple[tuple[str, int, int], ...] = ()

    @property
    def items(self) -> int:
        return sum(pending for _, pending, _ in self.kinds)

    @property
    def explanation(self) -> Explanation | None:
        """Return the note on what is pending; None if nothing is."""
        waiting = [row for row in self.kinds if row[1]]
        if not waiting:
            return None
        said = " and ".join(f"{pending:,} of {total:,} {_NAMES.get(kind, 'items')}" for kind, pending, total in waiting)
        verb = "is" if self.items == 1 else "are"
        joint = pgettext("before the last of several names", " and ")
        on_page = joint.join(
            str(_PAGE_NAMES.get(kind, _PAGE_NAMES[""])) % {"pending": f"{pending:,}", "total": f"{total:,}"}
            for kind, pending, total in waiting
        )
        return Explanation(Reason.PENDING, {"counts": f"{said} {verb}"}, {"counts": on_page})


NOTHING_PENDING = Pending()
_NAMES = {"conversation": "turns", "document": "sections"}
_PAGE_NAMES: Mapping[str, "StrOrPromise"] = {
    "conversation": _("%(pending)s of %(total)s turns"),
    "document": _("%(pending)s of %(total)s sections"),
    "": _("%(pending)s of %(total)s items"),
}


def pending_of(owner_id: int, filters: Filters) -> Pending:
    """Return the items in sources that pass the filters and wait for vectors in the active space. One query."""
    filters = with_known_names(owner_id, filters)
    conditions, parameters = source_conditions(filters, "e")
    statement = load_sql("search", "pending_items").replace("{filters}", " AND ".join(conditions) or "TRUE")
    parameters |= {"owner": owner_id, "space": active_space().pk, "max_attempts": EMBEDDING.max_attempts}
    rows = PendingQuery(statement, parameters).rows()
    return Pending(tuple((str(kind), int(pending), int(total)) for kind, pending, total in rows))


# --- empty answers --------------------------------------------------------------------------------


def explain_empty(*, owner_id: int, filters: Filters, pending: Pending) -> Explanation:
    """Return why a search with these filters found nothing. A few queries."""
    filters = with_known_names(owner_id, filters)
    if filters.documents is not None and (unready := _unready(owner_id, filters.documents)):
        return unready
    of_kinds = Source.objects.filter(owner_id=owner_id, item_count__gt=0)
    if filters.kinds:
        of_kinds = of_kinds.filter(kind__in=filters.kinds)
    if not of_kinds.exists():
        waiting = _unready(owner_id, None) if not filters.kinds or SECTIONS in filters.kinds else None
        return waiting or Explanation(Reason.NOTHING_STORED)
    condition, parameters = filter_sql(replace(filters, except_turns=()), QueryText(""), document="d")
    statement = load_sql("search", "passes_any").replace("{filters}", condition)
    ((found,),) = PendingQuery(statement, parameters | {"owner": owner_id}).rows()
    if not bool(found):
        return filtered_out(owner_id, filters)
    return pending.explanation or Explanation(Reason.NO_MATCH)


def explain_no_conversation(owner_id: int, filters: Filters) -> Explanation:
    """Return why no conversation is listed with these filters."""
    if not Conversation.objects.filter(owner_id=owner_id).exists():
        return Explanation(Reason.NOTHING_STORED)
    return filtered_out(owner_id, filters)


def filtered_out(owner_id: int, filters: Filters) -> Explanation:
    """Return that nothing passes the filters, with the nearest names in place of unknown ones."""
    said, on_page = [], []
    given = [(name, value) for name in EXACT for value in each_name(getattr(filters, name))]
    for name, value in given:
        near = nearest_names(owner_id, name, value)
        if near is None:
            continue
        listed = ", ".join(repr(other) for other in near)
        said.append(f"there is no {name} {value!r}" + (f", the nearest are {listed}" if near else ""))
        shown = {"value": value, "nearest": listed}
        on_page.append(
            gettext("“%(value)s” is unknown, the nearest are %(nearest)s") % shown
            if near
            else gettext("“%(value)s” is unknown") % shown
        )
    return Explanation(
        Reason.FILTERED_OUT,
        {"unknown": f": {'; '.join(said)}" if said else ""},
        {"unknown": f": {'; '.join(on_page)}" if on_page else ""},
    )


_NAMED_DOCUMENTS = 5
_STATES = {
    "uploaded": "waiting to be read",
    "processing": "being read",
    "failed": "reading it failed",
}


def _unready(owner_id: int, documents: frozenset[int] | None) -> Explanation | None:
    """Return that all of these documents of the owner (None: any) are not read; None if one is, or none exists."""
    chosen: dict[str, Any] = {} if documents is None else {"pk__in": documents}
    rows = list(Document.objects.filter(owner_id=owner_id, **chosen).order_by("pk")[:_NAMED_DOCUMENTS])
    if not rows or any(row.version for row in rows):
        return None
    names = ", ".join(repr(row.title or row.name) for row in rows)
    states = ", ".join(dict.fromkeys(_STATES[row.status] for row in rows))
    shown = ", ".join(dict.fromkeys(str(row.get_status_display()) for row in rows))
    return Explanation(Reason.NOT_READY, {"documents": names, "states": states}, {"documents": names, "states": shown})
