"""Finding the turns and sections that answer a query: the one use case behind page, API, command, tool and MCP.

The functions take the caller, never an owner from input; without a caller the result is empty. Candidates are retrieved
and ranked (`pipeline.py`), the page of hits is filled in (`results/hits.py`), and a reranker, if one is set up,
reorders the best of them (`ranking/reranking.py`).

Each archive is searched by itself, as the identity that the database admits to it (ADR 101), so that a search of
several archives finds in each what a search of that archive finds; those that do not fit into the budget of one search
are named. Hits of several archives are ordered by the
probability that they answer, or by their cosines, which mean the same in all of them.
"""

import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from itertools import accumulate, chain, islice, zip_longest
from operator import attrgetter, itemgetter
from typing import Protocol, TypeVar

from django.utils.translation import gettext, ngettext

from convmemory.accounts.callers import Access, Caller, latest_first
from convmemory.accounts.pages import archive_of_address
from convmemory.core.config import config
from convmemory.core.cursors import UNREADABLE, decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput
from convmemory.core.measuring import timed
from convmemory.documents.library import attached_ids, get_document
from convmemory.embeddings.spaces import active_space, one_active_space
from search.adapters.conversations import KIND as TURNS
from search.adapters.documents import KIND as SECTIONS
from search.models import PassageBlock
from search.pipeline import rank_items
from search.query import (
    DEFAULT_SCOPE,
    MAX_LIMIT,
    MIN_QUERY_CHARS,
    MODES,
    SCOPES,
    DocumentScope,
    Mode,
    SearchQuery,
    parse_scope,
)
from search.ranking.reranking import RerankOptions, mark_reranked, place_hits
from search.ranking.times.reading import TimeReading
from search.reasons import (
    NOTHING_PENDING,
    ONLY_NEAREST,
    Explanation,
    Pending,
    Reason,
    explain_empty,
    explanation_of_all,
    pending_of,
    pending_of_all,
)
from search.results.hits import (
    Hit,
    SectionPlace,
    TitleHit,
    TurnPlace,
    show_hits,
)
from search.results.rows import MAX_TITLES
from search.retrieval.candidates import put_first
from search.retrieval.typing_errors import Correction

__all__ = [
    "DEFAULT_SCOPE",
    "KINDS",
    "MAX_LIMIT",
    "MIN_QUERY_CHARS",
    "MODES",
    "SCOPES",
    "TURNS_ALONE",
    "DocumentScope",
    "Hit",
    "Mode",
    "SearchQuery",
    "SearchResults",
    "SectionPlace",
    "TurnPlace",
    "merge_ranked",
    "notes_of_left_out",
    "parse_kinds",
    "parse_scope",
    "search",
    "within_budget",
]

KINDS = {"turn": TURNS, "section": SECTIONS}
"""The kinds of items in queries, and the kinds of their sources."""
TURNS_ALONE, SECTIONS_ALONE = frozenset({TURNS}), frozenset({SECTIONS})

MAX_SEARCHED = 10
"""Archives that one search reads: the person's own, and the spaces that changed last."""
BUDGET_S = 0.5
"""Seconds after which a search begins no further archive, so that hooks, which wait for 0.8 s, get an answer. The first
archive, for which a process may load the model, does not count."""
SECTIONS_FIRST = 10
"""A page of sections begins with this many different sections, however long it is (ADR 49)."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of hits, the cursor of the next one, and notes for the caller.

    `total` counts the items found on all pages; in a search by distance only those that may answer. `answered` is true
    if a hit of the first page is likely enough to answer, or a title contains the query; false if none is, so that the
    hits are only the nearest; None if that is unknown, also while items wait that could answer. `pending` counts these,
    `waiting` by their kinds. `explanation` says why there are no hits, or not all; the last note is its sentence.
    `titles` are conversations and documents whose title contains the query, on the first page. `time` is the time that
    the query names. `is_calibrated` is false if the scale of the model's similarities is unknown, and in a listing,
    which compares nothing. With a `correction`, words of the query were searched for as they were probably meant.
    """

    hits: Sequence[Hit]
    next_cursor: str | None = None
    notes: tuple[str, ...] = ()
    total: int = 0
    answered: bool | None = None
    is_unlikely: bool = False
    time: TimeReading | None = None
    explanation: Explanation | None = None
    waiting: Pending = NOTHING_PENDING
    titles: tuple[TitleHit, ...] = ()
    is_calibrated: bool = True
    correction: Correction | None = None

    @property
    def pending(self) -> int:
        return self.waiting.items

    @property
    def reason(self) -> Reason | None:
        return self.explanation.reason if self.explanation else None


def parse_kinds(text: str) -> frozenset[str]:
    """Return the kinds of sources for a comma-separated list of kinds of items; "" means all. Raises: InvalidInput."""
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := names - KINDS.keys():
        raise InvalidInput(f"There is no kind {', '.join(sorted(unknown))!r}: use {' or '.join(KINDS)}, or both.")
    return frozenset(KINDS[name] for name in names) if len(names) < len(KINDS) else frozenset()


def search(
    *, caller: Caller | None, query: SearchQuery, chosen: str = "", cursor: str = "", folds_copies: bool = False
) -> SearchResults:
    """Return what answers the query in the archives that the caller reads, best first.

    `chosen` restricts it to one of them (`Caller.chosen`); the `document_scope` of a query, to the archive that holds
    the document or the conversation that it names. With `folds_copies` a turn that several conversations share is one
    hit of a page. A reranker orders the hits of one archive; no reranker is called for several.

    Raises: InvalidInput, also on a foreign cursor, NotFound for another space, document or conversation.
    """
    if caller is None:
        return _explained(Reason.NO_CALLER)
    archives = caller.chosen(chosen)
    if query.document_scope is None:
        with one_active_space():
            results = _search_archives(caller, query, archives, cursor)
        return replace(results, hits=_without_copies(results.hits)) if folds_copies else results
    scope = query.document_scope
    documents = among = scope.among
    if named := scope.named:
        archive_id = archive_of_address(named) if len(archives) > 1 else None
        archives = [access for access in archives if access.archive_id == archive_id] or [archives[0]]
        with caller.in_(archives[0]) as there:
            if scope.conversation_id is not None:
                documents = among = attached_ids(archive_id=there.archive_id, conversation_id=scope.conversation_id)
            if scope.document_id is not None:
                only = frozenset({get_document(caller=there, document_id=scope.document_id).pk})
                documents = only if among is None else among & only
    if among is not None and not documents:
        return _explained(Reason.NOT_ATTACHED if among else Reason.NONE_ATTACHED)
    query = replace(query, filters=replace(query.filters, kinds=SECTIONS_ALONE, documents=documents))
    # A page of sections whose second half begins with further passages of the sections in its first half. Other
    # passages of the best sections answer more often than the best passage of the twentieth section (ADR 49).
    first = max(SECTIONS_FIRST, query.limit // 2)
    results = _search_archives(caller, replace(query, limit=min(query.limit, first)), archives, cursor)
    room = query.limit - len(results.hits)
    if not room or len(results.hits) < first:
        return results
    further = [replace(other, space=hit.space) for hit in results.hits for other in hit.further]
    hits = [*results.hits, *further[:room]]
    room = query.limit - len(hits)
    if not room or not results.next_cursor:
        return replace(results, hits=hits)
    rest = _search_archives(caller, replace(query, limit=room), archives, results.next_cursor)
    return replace(results, hits=[*hits, *rest.hits], next_cursor=rest.next_cursor)


def _without_copies(hits: Sequence[Hit]) -> list[Hit]:
    """Return each turn of several conversations once: forks, mirrors and hand-overs share turns.

    Such turns have the same beginning and conclusion; the first of them counts the others as its copies.
    """
    kept: list[Hit] = []
    places: dict[Hashable, int] = {}
    for hit in hits:
        where = hit.where
        if isinstance(where, TurnPlace) and where.digest and where.outcome.conclusion:
            position = places.setdefault((where.digest, where.outcome), len(kept))
            if position < len(kept) and kept[position].object_id != hit.object_id:
                first = kept[position]
                kept[position] = replace(first, where=replace(first.turn, copies=first.turn.copies + 1))
                continue
        kept.append(hit)
    return kept


def _explained(reason: Reason) -> SearchResults:
    explanation = Explanation(reason)
    return SearchResults([], notes=(explanation.for_tools,), explanation=explanation)


def _search_archives(caller: Caller, query: SearchQuery, archives: Sequence[Access], cursor: str) -> SearchResults:
    """Return what these archives of the caller hold."""
    if len(archives) == 1:
        return _search_archive(caller, query, archives[0], cursor=cursor)
    members = {access.archive_id: access for access in archives}
    starts = dict.fromkeys(members, 0)
    identity = {**query.identity, "archives": "all"}
    if cursor:
        # Pairs of an archive and the place in its hits; archives that have no more hits are left out.
        numbers = decode_numbers(identity, cursor, count=2, at_most=2 * MAX_SEARCHED)
        places = dict(zip(numbers[::2], numbers[1::2], strict=False))
        starts = {number: places[number] for number in members if number in places}
    alone = replace(query, may_rerank=False)
    chosen = [members[number] for number in starts]
    pages_of = {
        access.archive_id: _search_archive(caller, alone, access, start=starts[access.archive_id])
        for access in (chosen if cursor else within_budget(chosen))
    }
    if not pages_of:
        raise InvalidInput("The cursor is of spaces that you no longer read: start again without one.")
    left_out = () if cursor else notes_of_left_out(archives, searched=pages_of)
    ranked = merge_ranked({number: page.hits for number, page in pages_of.items()}, limit=query.limit)
    taken = Counter(number for number, _ in ranked)
    following = [
        position
        for number, page in pages_of.items()
        if page.next_cursor or taken[number] < len(page.hits)
        for position in (number, starts[number] + (query.limit if taken[number] == len(page.hits) else taken[number]))
    ]
    pages, hits = list(pages_of.values()), [hit for _, hit in ranked]
    # Something answers if it does in one archive; nothing does only if that is known of each.
    answers = {page.answered for page in pages} | ({None} if left_out else set())
    answered = next((answer for answer in (True, None, False) if answer in answers), None)
    # The closest titles of each archive, then the next ones.
    titles = [title for row in zip_longest(*(page.titles for page in pages)) for title in row if title is not None]
    notes = dict.fromkeys(
        note for page in pages for note in page.notes if not (page.explanation and note == page.explanation.for_tools)
    )
    waiting = pending_of_all(page.waiting for page in pages)
    explanation = ONLY_NEAREST if hits and answered is False else waiting.explanation
    if explanation is None and not (hits or titles):
        explanation = explanation_of_all(page.explanation for page in pages if page.explanation)
    return SearchResults(
        hits=hits,
        next_cursor=encode_cursor(identity, following) if following else None,
        notes=(*notes, *left_out, *([explanation.for_tools] if explanation else [])),
        total=sum(page.total for page in pages),
        answered=answered,
        is_unlikely=not left_out and all(page.is_unlikely for page in pages),
        time=next((page.time for page in pages if page.time), None),
        explanation=explanation,
        waiting=waiting,
        titles=tuple(titles[:MAX_TITLES]),
        is_calibrated=all(page.is_calibrated for page in pages),
        correction=next((page.correction for page in pages if page.correction), None),
    )


def within_budget(archives: Sequence[Access]) -> Iterator[Access]:
    """Yield the archives that one search reads, until its number or its time is used up. At most one query."""
    if len(archives) > MAX_SEARCHED:
        archives = [access for access, _ in latest_first(archives)[:MAX_SEARCHED]]
    yield archives[0]
    end = time.monotonic() + BUDGET_S
    for access in archives[1:]:
        if time.monotonic() > end:
            return
        yield access


def notes_of_left_out(archives: Sequence[Access], *, searched: Collection[int]) -> tuple[str, ...]:
    """Return a note on which of these archives alone were searched; none if all were."""
    count = len(archives) - len(searched)
    if not count:
        return ()
    names = ", ".join(access.name for access in archives if access.archive_id in searched)
    note = ngettext(
        "Only these were searched: %(names)s. %(count)s other space was not: name it to search it.",
        "Only these were searched: %(names)s. %(count)s other spaces were not: name one to search it.",
        count,
    )
    return (note % {"names": names, "count": count},)


class Comparable(Protocol):
    """A hit or a recalled message, with the numbers by which it is compared with others."""

    @property
    def relevance(self) -> float | None: ...
    @property
    def similarity(self) -> float | None: ...
    @property
    def score(self) -> float: ...


class Dated(Comparable, Protocol):
    """The same with its time, by which those of listings are compared."""

    @property
    def created_at(self) -> datetime | None: ...


Ranked = TypeVar("Ranked", bound=Dated)


def merge_ranked(archives: Mapping[int, Sequence[Ranked]], *, limit: int) -> list[tuple[int, Ranked]]:
    """Return the best of several archives, each with its archive; those of each are ranked.

    They are ordered by the probability that they answer; without a calibration, as for documents alone, by their
    cosines; and if one has no vector, by their scores, which compare hits of one archive. Those of listings, whose
    scores are 0, are ordered by their times. An archive keeps its order, which knows more than one number of a hit: a
    hit counts like the best one that follows it there. Of equal ones, the first archive's come first.
    """
    every = list(chain.from_iterable(archives.values()))
    if all(hit.relevance is not None for hit in every):
        strength = attrgetter("relevance")
    elif all(hit.similarity for hit in every):
        strength = attrgetter("similarity")
    else:
        is_listing = all(not hit.score and hit.created_at for hit in every)
        strength = attrgetter("created_at" if is_listing else "score")
    rows = []
    for number, ranked in archives.items():
        strengths = list(accumulate((strength(hit) for hit in reversed(ranked)), max))[::-1]
        rows.append([(best, number, hit) for best, hit in zip(strengths, ranked, strict=True)])
    return [(number, hit) for _, number, hit in islice(merge(*rows, key=itemgetter(0), reverse=True), limit)]


def _search_archive(
    caller: Caller, query: SearchQuery, access: Access, *, cursor: str = "", start: int = 0
) -> SearchResults:
    """Return what one archive holds; each hit of a space that the caller is not in already names it.

    The page begins where `cursor` says, or after the first `start` hits.
    """
    with caller.in_(access) as there:
        results = _find(there.archive_id, query, cursor, start)
    if access.space is None or caller.space:
        return results
    hits = [replace(hit, space=access.space) for hit in results.hits]
    return replace(results, hits=hits, titles=tuple(replace(title, space=access.space) for title in results.titles))


def _find(archive_id: int, query: SearchQuery, cursor: str, start: int) -> SearchResults:
    """Return a page of the owner's hits, in the order of a reranker if there is one for this query."""
    by_words = ""
    if query.filters.kinds == SECTIONS_ALONE and query.mode != "full_text":
        if not config.rag_enabled:
            query = replace(query, mode="full_text")
            by_words = "Searched by words only: RAG_ENABLED is off on this server."
        elif not _has_vectors(archive_id, query.filters.documents):
            # A hybrid search goes by words where it finds no vector, and says what waits for one.
            query = replace(query, mode="hybrid")
            by_words = gettext("Searched by words only: no document is indexed by meaning yet.")
    # Where the page starts, and the keys of the hits that a reranker placed, while the page lies among them.
    placed: Sequence[int] = ()
    if cursor:
        start, *placed = decode_numbers(query.identity, cursor, count=1, at_most=1 + MAX_LIMIT)
        if placed and (start >= len(placed) or len(set(placed)) < len(placed)):
            raise InvalidInput(UNREADABLE)
    is_reranked = query.may_rerank and not (cursor or start) and query.mode != "full_text" and config.rerank_url
    with timed("search", label=query.mode) as measurement:
        results = _page(archive_id, query, start, placed, RerankOptions.from_settings() if is_reranked else None)
        measurement.items = len(results.hits)
    # What waits, or is missing, says already why the search went by words.
    if not by_words or results.reason in (Reason.PENDING, Reason.NOTHING_STORED, Reason.NOT_READY):
        return results
    return replace(results, notes=(by_words, *results.notes))


def _page(
    archive_id: int, query: SearchQuery, start: int, placed: Sequence[int], reranker: RerankOptions | None
) -> SearchResults:
    """Return the page from `start`, with the items `placed` on earlier pages first, or in the order of `reranker`."""
    end = start + query.limit
    ranked = rank_items(archive_id=archive_id, query=query, shown=slice(start, end))
    filters = ranked.query.filters
    keys = ranked.table.keys
    order = put_first(ranked.order, keys, placed)
    on_page = order[start : max(end, reranker.top_k) if reranker else end]
    shown, titles = show_hits(ranked, on_page, with_titles=not start)
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
    chances = [hit.relevance for hit in shown if hit.relevance is not None]
    if chances and not start:
        answered = max(chances) >= bar or ranked.has_literal(order[:end])
    # What waits among all that passes the filters could answer, too.
    pending = pending_of(archive_id, filters, space=ranked.space) if ranked.is_incomplete else NOTHING_PENDING
    is_unlikely = answered is False and not titles
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
        excluding = None if ranked.query.text.text else ranked.query.text
        explanation = explain_empty(archive_id=archive_id, filters=filters, pending=pending, text=excluding)
    return SearchResults(
        mark_reranked(shown, placed) if placed else shown,
        next_cursor,
        (*ranked.query.notes, *notes, *([explanation.for_tools] if explanation else [])),
        total=len(ranked.likely(bar)) if query.by_distance else len(order),
        answered=answered,
        is_unlikely=is_unlikely,
        time=ranked.query.time,
        explanation=explanation,
        waiting=pending,
        titles=titles,
        is_calibrated=ranked.relevance.is_calibrated and not ranked.is_listing,
        correction=ranked.correction,
    )


def _has_vectors(archive_id: int, documents: frozenset[int] | None) -> bool:
    """Return whether any of these documents has passages in the active space. One query."""
    rows = PassageBlock.objects.filter(
        archive_id=archive_id, space=active_space(), is_kept=False, passages__gt=0, source__kind=SECTIONS
    )
    if documents is not None:
        rows = rows.filter(source__object_id__in=documents)
    return rows.exists()
