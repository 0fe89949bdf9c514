"""Finding the turns and sections that answer a query: the one use case behind page, API, command, tool and MCP.

The functions take the caller, never an owner from input; without a caller the result is empty. Candidates are retrieved
and ranked (`pipeline.py`), the page of hits is filled in (`results/hits.py`), and a reranker, if one is set up,
reorders the best of them (`ranking/reranking.py`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.utils.translation import gettext

from convmemory.accounts.spaces import SpaceName
from convmemory.core.config import config
from convmemory.core.cursors import UNREADABLE, decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput
from convmemory.core.measuring import timed
from convmemory.core.text import Span
from convmemory.documents.models import Section
from convmemory.embeddings.spaces import active_space
from search.adapters.conversations import KIND as TURNS
from search.adapters.documents import KIND as SECTIONS
from search.models import Passage
from search.pipeline import rank_items
from search.query import DEFAULT_SCOPE, MAX_LIMIT, MIN_QUERY_CHARS, MODES, SCOPES, Mode, SearchQuery, parse_scope
from search.ranking.reranking import RerankOptions, mark_reranked, place_hits
from search.ranking.times.reading import TimeReading
from search.reasons import NOTHING_PENDING, ONLY_NEAREST, Explanation, Pending, Reason, explain_empty, pending_of
from search.results.hits import Hit, show_hits
from search.retrieval.candidates import put_first
from search.titles import TitleHit, find_titles

__all__ = [
    "DEFAULT_SCOPE",
    "MAX_LIMIT",
    "MIN_QUERY_CHARS",
    "MODES",
    "SCOPES",
    "Hit",
    "Mode",
    "SearchQuery",
    "SearchResults",
    "parse_scope",
    "search",
]


Marks = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class SectionHit:
    """One ranked section. `start` and `end` locate it in the document's text, as do those of the passage.

    `marks` are the places of the query's words in `passage`; `further` are other passages of the section, each with its
    start, its end, its marks and its headings. `space` is None in the archive of the caller.
    """

    document_id: int
    title: str
    section: int
    heading_path: tuple[str, ...]
    page: int | None
    start: int
    end: int
    passage: str
    passage_start: int
    passage_end: int
    marks: Marks
    similarity: float
    score: float
    relevance: float | None
    matched: tuple[str, ...]
    url: str
    created_at: datetime
    further: tuple[tuple[str, int, int, Marks, tuple[str, ...]], ...] = ()
    space: SpaceName | None = None

    @property
    def marked_url(self) -> str:
        """Return the URL at which the owner sees the passage marked."""
        return f"{self.url}&from={self.passage_start}&to={self.passage_end}#section-{self.section}"


AnyHit_co = TypeVar("AnyHit_co", bound=Hit | SectionHit, covariant=True)


@dataclass(frozen=True, slots=True)
class SearchResults(Generic[AnyHit_co]):
    """A page of hits, the cursor of the next one, and notes for the caller.

    `total` counts the items found on all pages; in a search by distance only those that may answer. `answered` is false
    if no result is likely to answer, so that the hits are only the nearest; None if that is unknown, also while items
    wait that could answer. `pending` counts these, `waiting` by their kinds. `explanation` says why there are no hits,
    or not all; the last note is its sentence. `titles` are conversations and documents whose title contains the query,
    on the first page. `time` is the time that the query names. `is_calibrated` is false if the scale of the model's
    similarities is unknown.
    """

    hits: Sequence[AnyHit_co]
    next_cursor: str | None = None
    notes: tuple[str, ...] = ()
    total: int = 0
    answered: bool | None = None
    time: TimeReading | None = None
    explanation: Explanation | None = None
    waiting: Pending = NOTHING_PENDING
    titles: tuple[TitleHit, ...] = ()
    is_calibrated: bool = True

    @property
    def pending(self) -> int:
        return self.waiting.items

    @property
    def reason(self) -> Reason | None:
        return self.explanation.reason if self.explanation else None

    @property
    def sections(self) -> list[SectionHit]:
        return [hit for hit in self.hits if isinstance(hit, SectionHit)]


MixedResults = SearchResults[Hit | SectionHit]
"""A page of turns and sections, best first."""


def search(
    *,
    caller: AbstractBaseUser | AnonymousUser | None,
    query: SearchQuery,
    cursor: str = "",
    start: int = 0,
    may_rerank: bool = True,
) -> SearchResults[Hit]:
    """Return the caller's turns that answer the query, best first. Raises: InvalidInput on a foreign cursor.

    The page begins where `cursor` says, or after the first `start` hits. `may_rerank` is false if the order does not
    matter or is merged with others: no reranker is called.
    """
    if caller is None or not caller.is_authenticated or caller.pk is None:
        nobody = Explanation(Reason.NO_CALLER)
        return SearchResults([], notes=(nobody.for_tools,), explanation=nobody)
    # Where the page starts, and the keys of the hits that a reranker placed, while the page lies among them.
    placed: list[int] = []
    if cursor:
        start, *placed = decode_numbers(query.identity, cursor, count=1, at_most=1 + MAX_LIMIT)
        if placed and (start >= len(placed) or len(set(placed)) < len(placed)):
            raise InvalidInput(UNREADABLE)
    is_first = not (cursor or start)
    reranker = RerankOptions.from_settings() if may_rerank and is_first and query.mode != "full_text" else None
    with timed("search", label=query.mode) as measurement:
        found = _find(caller.pk, query, start, tuple(placed), reranker)
        measurement.items = len(found.hits)
    return found


def _find(
    owner_id: int, query: SearchQuery, start: int, placed: tuple[int, ...], reranker: RerankOptions | None
) -> SearchResults[Hit]:
    """Return the page from `start`, with the items `placed` on earlier pages first, or in the order of `reranker`."""
    end = start + query.limit
    ranked = rank_items(owner_id=owner_id, query=query)
    keys = ranked.table.keys
    order = put_first(ranked.order, keys, placed)
    shown = show_hits(ranked, order[start : max(end, reranker.top_k) if reranker else end])
    notes: tuple[str, ...] = ()
    if reranker:
        placed, notes = place_hits(query, shown, reranker)
        order = put_first(order, keys, placed)
        by_key = {hit.key: hit for hit in shown}
        shown = [by_key[key] for key in keys[order[start:end]].tolist() if key in by_key]
    rest = placed if end < len(placed) else ()
    next_cursor = encode_cursor(query.identity, [end, *rest]) if end < len(order) else None
    bar = config.search_min_relevance
    answered = ranked.is_answered(bar)
    # What waits among all that passes the filters could answer, too.
    pending = NOTHING_PENDING
    if ranked.is_incomplete:
        pending = pending_of(owner_id, ranked.query.filters, space=ranked.space)
    titles = () if start or not ranked.query.words else find_titles(owner_id, ranked.query.words, ranked.query.filters)
    if answered is False and pending.items:
        answered = None
    if answered is False and titles:
        answered = True  # as if a hit contained all words
    if titles and not shown:
        explanation = pending.explanation
    elif shown:
        explanation = ONLY_NEAREST if answered is False else pending.explanation
    elif start and len(order):
        explanation = Explanation(Reason.PAST_END)
    else:
        explanation = explain_empty(owner_id=owner_id, filters=ranked.query.filters, pending=pending)
    return SearchResults(
        mark_reranked(shown, placed),
        next_cursor,
        (*ranked.query.notes, *notes, *([explanation.for_tools] if explanation else [])),
        total=len(ranked.likely(bar)) if query.by_distance else len(order),
        answered=answered,
        time=ranked.query.time,
        explanation=explanation,
        waiting=pending,
        titles=titles,
        is_calibrated=ranked.relevance.is_calibrated,
    )


# --- document search ------------------------------------------------------------------------------
# Searches the sections of documents, alone or together with turns.
#
# The search is the same as for turns. A hit in a document also has the page, the headings, and offsets in the
# document's text.


KINDS = {"turn": TURNS, "section": SECTIONS}
"""The kinds of items in queries, and the kinds of their sources."""

TURNS_ALONE = frozenset({TURNS})

Caller = AbstractBaseUser | AnonymousUser | None


def search_items(
    *, caller: Caller, query: SearchQuery, cursor: str = "", start: int = 0, may_rerank: bool = True
) -> MixedResults:
    """Return the caller's items of the kinds in `query.filters`, or of all kinds if it names none.

    `start` and `may_rerank` are as in `search`. Raises: InvalidInput.
    """
    notes: tuple[str, ...] = ()
    if query.filters.kinds == {SECTIONS} and query.mode != "full_text":
        if not config.rag_enabled:
            query = replace(query, mode="full_text")
            notes = ("Searched by words only: RAG_ENABLED is off on this server.",)
        elif isinstance(caller, AbstractBaseUser) and not _has_vectors(caller.pk, query.filters.documents):
            # A hybrid search goes by words where it finds no vector, and says what waits for one.
            query = replace(query, mode="hybrid")
            notes = (gettext("Searched by words only: no document is indexed by meaning yet."),)
    found = search(caller=caller, query=query, cursor=cursor, start=start, may_rerank=may_rerank)
    if found.reason in (Reason.PENDING, Reason.NOTHING_STORED, Reason.NOT_READY):
        notes = ()  # what waits, or is missing, is said already
    # The hits, with places for those of documents. At most one query.
    sections = sections_by_key([hit for hit in found.hits if hit.kind == SECTIONS], getattr(caller, "pk", None))
    hits: list[Hit | SectionHit] = []
    for hit in found.hits:
        if hit.kind != SECTIONS:
            hits.append(hit)
        elif section := sections.get((hit.object_id, hit.turn_number)):
            hits.append(_section_hit(hit, section))
    mixed: MixedResults = found
    return replace(mixed, hits=hits, notes=(*notes, *found.notes))


def _has_vectors(owner_id: int, documents: frozenset[int] | None) -> bool:
    """Return whether any of these documents has passages in the active space. One query."""
    rows = Passage.objects.filter(owner_id=owner_id, space=active_space(), kind=Passage.Kind.DOCUMENT)
    if documents is not None:
        rows = rows.filter(source__kind=SECTIONS, source__object_id__in=documents)
    return rows.exists()


def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds of sources for a comma-separated list of kinds of items; "" means all. Raises: InvalidInput."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := names - KINDS.keys():
        raise InvalidInput(f"There is no kind {', '.join(sorted(unknown))!r}: use {' or '.join(KINDS)}, or both.")
    return frozenset(KINDS[name] for name in names) if len(names) < len(KINDS) else frozenset()


# --- places ------------------------------------------------------------------------------


def sections_by_key(hits: Sequence[Hit], owner_id: int | None) -> dict[tuple[int, int], Section]:
    """Return the sections of the hits, by document and number."""
    if not hits:
        return {}
    rows = Section.objects.filter(
        owner_id=owner_id,
        document_id__in={hit.object_id for hit in hits},
        number__in={hit.turn_number for hit in hits},
    )
    return {(row.document_id, row.number): row for row in rows}


def _section_hit(hit: Hit, section: Section) -> SectionHit:
    return SectionHit(
        document_id=hit.object_id,
        title=hit.title,
        section=hit.turn_number,
        heading_path=_headings(section, hit.passage_start, hit.passage, hit.marks),
        page=section.page,
        start=section.start,
        end=section.end,
        passage=hit.passage,
        passage_start=section.start + hit.passage_start,
        passage_end=section.start + hit.passage_end,
        marks=hit.marks,
        similarity=hit.similarity,
        score=hit.score,
        relevance=hit.relevance,
        matched=hit.matched,
        url=hit.url,
        created_at=hit.created_at,
        further=tuple(
            (
                passage.text,
                section.start + passage.start,
                section.start + passage.end,
                passage.marks,
                _headings(section, passage.start, passage.text, passage.marks),
            )
            for passage in hit.further
        ),
    )


def _headings(section: Section, start: int, passage: str, marks: Marks) -> tuple[str, ...]:
    """Return the headings above most of the different words marked in a passage that begins at `start`.

    Without marks these are the headings above the passage.
    """
    marked = dict.fromkeys((section.path_at(start + at), passage[at:end].lower()) for at, end in marks)
    paths = Counter(path for path, _ in marked)
    return paths.most_common(1)[0][0] if paths else section.path_at(start)
