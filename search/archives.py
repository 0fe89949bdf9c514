"""Searches the archive of a person and the spaces that they read, and merges the hits into one ranking.

Each archive is searched by itself, as the identity that the database admits to it (ADR 101), so that a search of
several archives finds in each what a search of that archive finds. Hits of several archives are ordered by the
probability that they answer, or by their cosines, which mean the same in all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import merge
from itertools import accumulate, chain, islice, zip_longest
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from convmemory.accounts.models import SpaceMember
from convmemory.accounts.pages import archive_of_address
from convmemory.accounts.spaces import MAX_SPACES, MINE, chosen_archives, name_of, reading
from convmemory.core.cursors import decode_numbers, encode_cursor
from convmemory.core.errors import InvalidInput
from convmemory.documents.library import attached_ids, get_document
from search.adapters.documents import KIND as SECTIONS
from search.query import SearchQuery
from search.reasons import ONLY_NEAREST, Explanation, Reason, pending_of_all
from search.results.hits import Hit
from search.searching import MixedResults, SearchResults, SectionHit, search_items
from search.titles import MAX_TITLES

OWN = 0  # in cursors: the number of the caller's own archive
SECTIONS_FIRST = 10
"""A page of sections begins with this many different sections, however long it is (ADR 49)."""

EMPTY = {Reason.NO_MATCH: 0, Reason.FILTERED_OUT: 1, Reason.NOT_READY: 2}
"""In this order, the reasons of archives that show nothing say more of what is stored in all of them."""

AnyHit = TypeVar("AnyHit", bound=Hit | SectionHit)


class Comparable(Protocol):
    """A hit or a recalled message, with the numbers by which it is compared with others."""

    @property
    def relevance(self) -> float | None: ...
    @property
    def similarity(self) -> float: ...
    @property
    def score(self) -> float: ...


Ranked = TypeVar("Ranked", bound=Comparable)


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
    ranked = merge_ranked({number: page.hits for number, page in found.items()}, limit=query.limit)
    taken = Counter(number for number, _ in ranked)
    following = [
        place
        for number, page in found.items()
        if page.next_cursor or taken[number] < len(page.hits)
        for place in (number, starts[number] + (query.limit if taken[number] == len(page.hits) else taken[number]))
    ]
    next_cursor = encode_cursor(identity, following) if following else None
    return _combine(list(found.values()), [hit for _, hit in ranked], next_cursor)


def search_documents(
    *,
    caller: AbstractBaseUser | AnonymousUser | None,
    query: SearchQuery,
    spaces: Sequence[SpaceMember] = (),
    chosen: str = "",
    document_id: int | None = None,
    conversation_id: int | None = None,
    among: frozenset[int] | None = None,
    cursor: str = "",
) -> MixedResults:
    """Return the sections in the caller's archive and in their `spaces` that answer the query.

    `chosen` restricts it as in `search_archives`; a document or a conversation, whose documents alone are searched, to
    the archive that holds it. `among` are the only documents that are searched. If document embedding is off or no
    document is embedded yet, the search goes by words only, with a note. Raises: NotFound, InvalidInput.
    """
    documents = among
    named = {"document_id": document_id} if conversation_id is None else {"conversation_id": conversation_id}
    if isinstance(caller, AbstractBaseUser) and None not in named.values():
        member = None
        if spaces:
            owner_id, archives = archive_of_address(named), chosen_archives(spaces, chosen)
            member = next((each for each in archives if each and each.space_id == owner_id), None)
            chosen = str(member.space_id) if member else MINE
        owner = member.space if member else caller
        with reading(member):
            if conversation_id is not None:
                documents = among = attached_ids(owner_id=owner.pk, conversation_id=conversation_id)
            if document_id is not None:
                found_id = get_document(owner=owner, document_id=document_id).pk
                documents = frozenset({found_id}) if among is None else among & {found_id}
    if among is not None and not documents and isinstance(caller, AbstractBaseUser):
        explanation = Explanation(Reason.NOT_ATTACHED if among else Reason.NONE_ATTACHED)
        return SearchResults([], notes=(explanation.for_tools,), explanation=explanation)
    query = replace(query, filters=replace(query.filters, kinds=frozenset({SECTIONS}), documents=documents))
    # A page of sections whose second half begins with further passages of the sections in its first half. Other
    # passages of the best sections answer more often than the best passage of the twentieth section (ADR 49).
    first = max(SECTIONS_FIRST, query.limit // 2)
    find = partial(search_archives, search_items, caller=caller, spaces=spaces, chosen=chosen)
    found = find(query=replace(query, limit=min(query.limit, first)), cursor=cursor)
    room = query.limit - len(found.hits)
    if not room or len(found.hits) < first:
        return found
    further = further_passages(found.sections)[:room]
    if len(further) < room and found.next_cursor:
        rest = find(query=replace(query, limit=room - len(further)), cursor=found.next_cursor)
        return replace(found, hits=[*found.hits, *further, *rest.hits], next_cursor=rest.next_cursor)
    return replace(found, hits=[*found.hits, *further])


def further_passages(hits: Sequence[SectionHit]) -> list[SectionHit]:
    """Return the same sections with their other passages, in the order of the sections."""
    return [
        replace(hit, passage=text, passage_start=start, passage_end=end, marks=marks, heading_path=path, further=())
        for hit in hits
        for text, start, end, marks, path in hit.further
    ]


def merge_ranked(archives: Mapping[int, Sequence[Ranked]], *, limit: int) -> list[tuple[int, Ranked]]:
    """Return the best of several archives, each with its archive; those of each are ranked.

    They are ordered by the probability that they answer; without a calibration, as for documents alone, by their
    cosines; and if one has no vector, by their scores, which compare hits of one archive. An archive keeps its order,
    which knows more than one number of a hit: a hit counts like the best one that follows it there. Of equal ones, the
    first archive's come first.
    """
    every = list(chain.from_iterable(archives.values()))
    if all(hit.relevance is not None for hit in every):
        strength = attrgetter("relevance")
    else:
        strength = attrgetter("similarity" if all(hit.similarity > 0 for hit in every) else "score")
    rows = []
    for number, ranked in archives.items():
        strengths = list(accumulate((strength(hit) for hit in reversed(ranked)), max))[::-1]
        rows.append([(best, number, hit) for best, hit in zip(strengths, ranked, strict=True)])
    return [(number, hit) for _, number, hit in islice(merge(*rows, key=lambda row: -row[0]), limit)]


def explanation_of_all(explanations: Iterable[Explanation]) -> Explanation | None:
    """Return the explanation of one archive that is true of all archives that show nothing; None without any.

    A name that is unknown in one archive can be known in another: an explanation that names none comes first.
    """
    return min(
        explanations,
        key=lambda each: (EMPTY.get(each.reason, len(EMPTY)), bool(each.values.get("unknown"))),
        default=None,
    )


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
    notes: dict[str, None] = {}
    explanations: list[Explanation] = []
    for page in pages:
        if page.explanation:
            explanations.append(page.explanation)
        said_again = page.explanation.for_tools if page.explanation else ""
        notes |= dict.fromkeys(note for note in page.notes if note != said_again)
    waiting = pending_of_all(page.waiting for page in pages)
    explanation = ONLY_NEAREST if hits and answered is False else waiting.explanation
    if explanation is None and not (hits or titles):
        explanation = explanation_of_all(explanations)
    return SearchResults(
        hits=hits,
        next_cursor=next_cursor,
        notes=(*notes, *([explanation.for_tools] if explanation else [])),
        total=sum(page.total for page in pages),
        answered=answered,
        time=next((page.time for page in pages if page.time), None),
        explanation=explanation,
        waiting=waiting,
        titles=tuple(titles[:MAX_TITLES]),
        is_calibrated=all(page.is_calibrated for page in pages),
    )
