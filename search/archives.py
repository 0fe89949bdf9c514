"""Searches the archive of a person and the spaces that they read, and merges the hits into one ranking.

Each archive is searched by itself, as the identity that the database admits to it (ADR 101), so that a search of
several archives finds in each what a search of that archive finds. Hits of several archives are ordered by the
probability that they answer, the only number that means the same in all of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import accumulate, islice, zip_longest
from typing import Any, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.accounts.models import SpaceMember
from convmemory.accounts.spaces import MAX_SPACES, chosen_archives, name_of, reading
from convmemory.core.cursors import decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput
from search.query import SearchQuery
from search.reasons import ONLY_NEAREST, Explanation, Pending, Reason
from search.results.hits import Hit
from search.searching import SearchResults, SectionHit
from search.titles import MAX_TITLES

OWN = 0  # in cursors: the number of the caller's own archive
EMPTY = {Reason.NO_MATCH: 0, Reason.FILTERED_OUT: 1, Reason.NOT_READY: 2}
"""Several archives show nothing for the first of these reasons that one of them has: it says most of what is stored."""

AnyHit = TypeVar("AnyHit", bound=Hit | SectionHit)
Ranked = TypeVar("Ranked")


def search_archives(
    find: Callable[..., SearchResults[AnyHit]],
    *,
    caller: AbstractBaseUser | AnonymousUser | None,
    spaces: Sequence[SpaceMember],
    query: SearchQuery,
    chosen: str = "",
    cursor: str = "",
) -> SearchResults[AnyHit]:
    """Return what `find`, which is `search` or `search_items`, finds in the caller's archive and in their `spaces`.

    `chosen` restricts it to the caller's archive (`MINE`) or to the space with this number. Without spaces it is the
    search of the caller's archive. A reranker orders the hits of one archive; no reranker is called for several.
    Raises: InvalidInput, NotFound for another space.
    """
    chosen_ones = chosen_archives(spaces, chosen)
    if len(chosen_ones) == 1 or not isinstance(caller, AbstractBaseUser):
        member = chosen_ones[0]
        if member is None:
            return find(caller=caller, query=query, cursor=cursor)
        return _find_in(find, member, query=query, cursor=cursor)
    archives = {member.space_id if member else OWN: member for member in chosen_ones}
    starts = dict.fromkeys(archives, 0)
    identity = {**query.identity, "archives": "all"}
    if cursor:
        # Pairs of an archive and the place in its hits; archives that have no more hits are left out.
        numbers = decode_numbers(identity, cursor, count=2, at_most=2 * (MAX_SPACES + 1))
        places = dict(zip(numbers[::2], numbers[1::2], strict=False))
        starts = {number: places[number] for number in archives if number in places}
    found: dict[int, SearchResults[AnyHit]] = {}
    for number, start in starts.items():
        member = archives[number]
        if member is None:
            found[number] = find(caller=caller, query=query, start=start, may_rerank=False)
        else:
            found[number] = _find_in(find, member, query=query, start=start, may_rerank=False)
    if not found:
        raise InvalidInput("The cursor is of spaces that you no longer read: start again without one.")
    is_calibrated = all(hit.relevance is not None for page in found.values() for hit in page.hits)
    ranked = merge_ranked(
        {
            number: [((hit.relevance if is_calibrated else hit.score) or 0.0, hit) for hit in page.hits]
            for number, page in found.items()
        },
        limit=query.limit,
    )
    taken = Counter(number for number, _ in ranked)
    following = [
        place
        for number, page in found.items()
        if page.next_cursor or taken[number] < len(page.hits)
        for place in (number, starts[number] + (query.limit if taken[number] == len(page.hits) else taken[number]))
    ]
    next_cursor = encode_cursor(identity, following) if following else None
    return _combine(list(found.values()), [hit for _, hit in ranked], next_cursor)


def merge_ranked(archives: Mapping[int, Sequence[tuple[float, Ranked]]], *, limit: int) -> list[tuple[int, Ranked]]:
    """Return the best of several archives, each with its archive; each was ranked, and has its strength with it.

    An archive keeps its order, which knows more than the probability of one hit: a hit counts like the best one that
    follows it there. Of equal ones, the first archive's come first.
    """
    rows = []
    for number, ranked in archives.items():
        strengths = list(accumulate((strength for strength, _ in reversed(ranked)), max))[::-1]
        rows.append([(strength, number, hit) for strength, (_, hit) in zip(strengths, ranked, strict=True)])
    return [(number, hit) for _, number, hit in islice(merge(*rows, key=lambda row: -row[0]), limit)]


def _find_in(find: Callable[..., SearchResults[AnyHit]], member: SpaceMember, **options: Any) -> SearchResults[AnyHit]:
    """Return what a search finds in one space; each hit names the space."""
    space = name_of(member)
    with reading(member):
        found = find(caller=member.space, **options)
    hits = [replace(hit, space=space) for hit in found.hits]
    return replace(found, hits=hits, titles=tuple(replace(title, space=space) for title in found.titles))


def _combine(
    pages: Sequence[SearchResults[AnyHit]], hits: Sequence[AnyHit], next_cursor: str | None
) -> SearchResults[AnyHit]:
    """Return one page of results with these hits, and with what is true of all the archives together."""
    # Something answers if it does in one archive; nothing does only if that is known of each.
    answers = {page.answered for page in pages}
    answered = next((answer for answer in (True, None, False) if answer in answers), None)
    # The closest titles of each archive, then the next ones.
    titles = [title for row in zip_longest(*(page.titles for page in pages)) for title in row if title is not None]
    counts: dict[str, tuple[int, int]] = {}
    notes: dict[str, None] = {}
    explanations: list[Explanation] = []
    for page in pages:
        for kind, pending, total in page.waiting.kinds:
            before = counts.get(kind, (0, 0))
            counts[kind] = before[0] + pending, before[1] + total
        if page.explanation:
            explanations.append(page.explanation)
        said_again = page.explanation.for_tools if page.explanation else ""
        notes |= dict.fromkeys(note for note in page.notes if note != said_again)
    waiting = Pending(tuple((kind, *count) for kind, count in counts.items()))
    explanation = ONLY_NEAREST if hits and answered is False else waiting.explanation
    if explanation is None and not (hits or titles):
        explanation = min(explanations, key=lambda each: EMPTY.get(each.reason, len(EMPTY)), default=None)
    return SearchResults(
        hits=hits,
        next_cursor=next_cursor,
        notes=(*notes, *([explanation.for_tools] if explanation else [])),
        total=sum(page.total for page in pages),
        answered=answered,
        time=next((page.time for page in pages if page.time), None),
        explanation=explanation,
        pending=waiting.items,
        waiting=waiting,
        titles=tuple(titles[:MAX_TITLES]),
        is_calibrated=all(page.is_calibrated for page in pages),
    )
