"""Finding the turns that answer a query: the one use case behind page, API, command, tool and MCP.

Takes the caller, never an owner from input; without a caller the answer is empty. The legs' signals
are gathered and ranked (`signals.py`), and the page of hits is filled in (`hits.py`).
"""

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.core.cursors import decode_numbers, encode_cursor
from search.hits import Hit, show_hits
from search.query import DEFAULT_SCOPE, MAX_LIMIT, MIN_QUERY_CHARS, MODES, SCOPES, Mode, SearchQuery, parse_scope
from search.signals import rank_turns

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


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of hits, the cursor of the next one, and what the caller should know about the search."""

    hits: list[Hit]
    next_cursor: str | None = None
    notes: tuple[str, ...] = ()


def search(*, caller: AbstractBaseUser | AnonymousUser | None, query: SearchQuery, cursor: str = "") -> SearchResults:
    """The caller's turns that answer the query, best first. Raises: InvalidInput on a foreign cursor."""
    if caller is None or not caller.is_authenticated or caller.pk is None:
        return SearchResults([], notes=("Nobody is signed in: there is nothing to search.",))
    start = decode_numbers(query.identity, cursor, count=1)[0] if cursor else 0
    ranked = rank_turns(caller.pk, query)
    order = ranked.order()
    hits = show_hits(caller.pk, query, ranked, order[start : start + query.limit])
    more = len(order) > start + query.limit
    next_cursor = encode_cursor(query.identity, [start + query.limit]) if more else None
    return SearchResults(hits, next_cursor, ranked.notes)
