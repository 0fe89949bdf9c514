"""Why an answer of a search is empty or incomplete, and what to do about it: one enumeration, worded once.

`TOOLS` has the sentences for models, programs and the terminal, in English; `PAGES` those for people, translated.
A search returns a `Reason` with its values as an `Explanation`; surfaces only show it. Values are the same for both,
and are put into words when a sentence is shown, in its language. Each sentence states facts that `explain_empty` has
read. Source: docs/adr/0083-reasons-of-empty-answers.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.utils.functional import lazy
from django.utils.translation import gettext, ngettext, override
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
    Reason.PENDING: "Not everything can be found yet: %(waiting)s. Search again later for all.",
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
    """A reason with the values that its sentence names, which may be lazily translated."""

    reason: Reason
    values: "Mapping[str, StrOrPromise]" = field(default_factory=dict)

    @property
    def for_tools(self) -> str:
        with override("en"):
            return TOOLS[self.reason] % self.values

    @property
    def for_pages(self) -> str:
        return str(PAGES[self.reason]) % self.values


ONLY_NEAREST = Explanation(Reason.BELOW_BAR, {"rest": _("; what follows is only the nearest")})
NOTHING_BROUGHT = Explanation(Reason.BELOW_BAR, {"rest": _(": a search shows what comes nearest")})
NOT_SIMILAR = Explanation(Reason.BELOW_BAR, {"rest": _(" at this similarity: a lower threshold brings back more")})


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
        return Explanation(Reason.PENDING, {"waiting": lazy(self._waiting, str)()}) if self.items else None

    def _waiting(self) -> str:
        parts = []
        for kind, (waiting, without_words, total) in self.kinds.items():
            for count, searchable in ((waiting - without_words, _ONLY_BY_WORDS), (without_words, _PERHAPS_NOT)):
                if count:
                    counted = {"pending": f"{count:,}", "total": f"{total:,}"}
                    parts.append(searchable % {"counts": str(_COUNTS.get(kind, _COUNTS[""])) % counted})
        if self.unread:
            sentence = ngettext("%(count)s document is being read", "%(count)s documents are being read", self.unread)
            parts.append(sentence % {"count": f"{self.unread:,}"})
        if self.imports:
            sentence = ngettext("%(count)s import has not ended", "%(count)s imports have not ended", self.imports)
            parts.append(sentence % {"count": f"{self.imports:,}"})
        return "; ".join(parts)


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
_COUNTS: Mapping[str, "StrOrPromise"] = {
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
    chosen = [(name, value) for name in EXACT for value in each_name(getattr(filters, name))]
    nearest = [(value, nearest_names(archive_id, name, value)) for name, value in chosen]
    unknown = [(value, ", ".join(map(repr, near))) for value, near in nearest if near is not None]

    def unknown_names() -> str:
        near = gettext("“%(value)s” is unknown, the nearest are %(nearest)s")
        parts = [
            (near if names else gettext("“%(value)s” is unknown")) % {"value": value, "nearest": names}
            for value, names in unknown
        ]
        return f": {'; '.join(parts)}"

    return Explanation(Reason.FILTERED_OUT, {"unknown": lazy(unknown_names, str)() if unknown else ""})


_NAMED_DOCUMENTS = 5


def _unready(archive_id: int, documents: frozenset[int] | None) -> Explanation | None:
    """Return that all of these documents of the owner (None: any) are not read; None if one is, or none exists."""
    chosen: dict[str, Any] = {} if documents is None else {"pk__in": documents}
    rows = list(Document.objects.filter(archive_id=archive_id, **chosen).order_by("pk")[:_NAMED_DOCUMENTS])
    if not rows or any(row.version for row in rows):
        return None
    names = ", ".join(repr(row.title or row.name) for row in rows)
    states = lazy(lambda: ", ".join(dict.fromkeys(str(row.get_status_display()) for row in rows)), str)()
    return Explanation(Reason.NOT_READY, {"documents": names, "states": states})
