"""Finds the turns that answer a query: the one use case behind page, API, command, tool and MCP.

The functions take the caller, never an owner from input; without a caller the result is empty. Candidates are retrieved
and ranked (`pipeline.py`), the page of hits is filled in (`results/hits.py`), and a reranker, if one is set up,
reorders the best of them (`ranking/reranking.py`).
"""

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.core.cursors import UNREADABLE, decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput
from convmemory.core.measuring import timed
from convmemory.core.replicas import may_use_replica
from search.options import SearchOptions
from search.pipeline import rank_items
from search.query import DEFAULT_SCOPE, MAX_LIMIT, MIN_QUERY_CHARS, MODES, SCOPES, Mode, SearchQuery, parse_scope
from search.ranking.rerank_endpoint import RerankOptions
from search.ranking.reranking import Placing, mark_reranked, place_hits
from search.ranking.times.reading import TimeReading
from search.results.hits import Hit, show_hits
from search.retrieval.candidates import put_first

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

ONLY_NEAREST = "Nothing found seems to answer this; what follows is only the nearest."


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of hits, the cursor of the next one, and notes for the caller.

    `total` counts all turns found, on all pages. `answered` is false if no result is likely to answer, so that the hits
    are only the nearest; None if that is unknown. `time` is the time that the query names.
    """

    hits: list[Hit]
    next_cursor: str | None = None
    notes: tuple[str, ...] = ()
    total: int = 0
    answered: bool | None = None
    time: TimeReading | None = None


@may_use_replica
def search(
    *, caller: AbstractBaseUser | AnonymousUser | None, query: SearchQuery, cursor: str = "", may_rerank: bool = True
) -> SearchResults:
    """Return the caller's turns that answer the query, best first. Raises: InvalidInput on a foreign cursor.

    `may_rerank` is false if the order does not matter: no reranker is called.
    """
    if caller is None or not caller.is_authenticated or caller.pk is None:
        return SearchResults([], notes=("Nobody is signed in: there is nothing to search.",))
    start, placed = _read_place(query, cursor) if cursor else (0, ())
    reranker = RerankOptions.from_settings() if may_rerank and not cursor and query.mode != "full_text" else None
    with timed("search", label=query.mode) as measurement:
        found = _find(caller.pk, query, start, Placing(placed), reranker)
        measurement.items = len(found.hits)
    return found


def _read_place(query: SearchQuery, cursor: str) -> tuple[int, tuple[int, ...]]:
    """Return where the page starts, and the keys of the hits that a reranker placed, while the page lies among them."""
    start, *placed = decode_numbers(query.identity, cursor, count=1, at_most=1 + MAX_LIMIT)
    if placed and (start >= len(placed) or len(set(placed)) < len(placed)):
        raise InvalidInput(UNREADABLE)
    return start, tuple(placed)


def _find(
    owner_id: int, query: SearchQuery, start: int, placing: Placing, reranker: RerankOptions | None
) -> SearchResults:
    """Return the page from `start`, in the order of earlier pages, or in the one that `reranker` gives."""
    end = start + query.limit
    ranked = rank_items(owner_id=owner_id, query=query)
    keys = ranked.table.keys
    order = put_first(ranked.order, keys, placing.keys)
    shown = show_hits(ranked, order[start : max(end, reranker.top_k) if reranker else end])
    if reranker:
        placing = place_hits(query, shown, reranker)
        order = put_first(order, keys, placing.keys)
        by_key = {hit.key: hit for hit in shown}
        shown = [by_key[key] for key in keys[order[start:end]].tolist() if key in by_key]
    rest = placing.keys if end < len(placing.keys) else ()
    next_cursor = encode_cursor(query.identity, [end, *rest]) if end < len(order) else None
    answered = ranked.is_answered(SearchOptions.from_settings().min_relevance)
    notes = (*ranked.query.notes, *placing.notes, *([ONLY_NEAREST] if answered is False and len(order) else []))
    return SearchResults(
        mark_reranked(shown, placing.keys),
        next_cursor,
        notes,
        total=len(order),
        answered=answered,
        time=ranked.query.time,
    )
