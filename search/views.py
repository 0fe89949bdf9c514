"""The sidebar: search results as you type, the list of conversations, and how far the index is.

`/` and `/search` answer a whole page, the list alone (htmx, while typing), its next page (htmx), or the
main area's welcome (htmx, coming back from a conversation), all at the same address.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe
from django_htmx.http import replace_url

from convmemory.accounts.views import PageRequest, signed_in
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import Filters, page_of_conversations, project_name
from convmemory.conversations.views import LIST_LIMIT, SearchBox, list_rows
from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line
from search.document_search import TURNS_ALONE, MixedResults, SectionHit, parse_kinds, search_items
from search.home_page import home_values
from search.indexing.status import IndexStatus, index_status
from search.searching import (
    MAX_LIMIT,
    MIN_QUERY_CHARS,
    MODES,
    SCOPES,
    Hit,
    SearchQuery,
    search,
)

RESULTS_LIMIT = 20
QUESTION_CHARS = 200
CHOICES_LIMIT = 500
_WORDS = re.compile(r"\w{3,}")
_CONVERSATION_PATH = re.compile(r"/(?:conversations|documents)/\d+")
_TURN = re.compile(r"[0-9]{1,10}")
_LINE_START = re.compile(r"^\s*+(?:[-*+>]|#{1,6}|\d{1,3}[.)])\s+")
_EMPHASIS = re.compile(r"`+|\*\*|(?<!\w)__|__(?!\w)|(?<!\S)#{2,6}(?=\s)")
_UNMARKED = frozenset(
    _WORDS.findall(
        "about after all and any are because but can could did does for from had has have how into its just not off "
        "our out over should some than that the their them then there these they this those use was were what when "
        "where which who why will with without would you your"
    )
)
_KEPT_PARAMETERS = ("turn", "section")  # of a conversation's or a document's address, when the query in it changes


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a passage; `is_match` where it is a word of the query."""

    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class SectionView:
    """A hit of a document as the sidebar shows it."""

    section: SectionHit
    url: str
    heading: tuple[Piece, ...]
    passage: tuple[Piece, ...]
    percent: int


@dataclass(frozen=True, slots=True)
class HitView:
    """A hit as the sidebar shows it."""

    hit: Hit
    url: str
    question: tuple[Piece, ...]
    passage: tuple[Piece, ...]
    percent: int
    project_name: str


@require_safe
@signed_in
def search_page(request: PageRequest) -> HttpResponse:
    """Results of `?q=`, or the newest conversations where there is no query."""
    if request.htmx and request.htmx.target == "main":
        return render(request, "search/search.html#main", _start(request, SearchBox.of(request)))
    box = SearchBox.of(request)
    status, context = _sidebar(request, box)
    context |= {"box": box, "keep": box.query_string}
    if request.htmx:
        part = "more" if request.GET.get("cursor") else "results"
        response = render(request, f"search/search.html#{part}", context, status=status)
        address = "" if part == "more" else _address(request, box)
        return replace_url(response, address) if address else response
    context |= _start(request, box) | _choices(request) | {"modes": MODES, "scopes": SCOPES}
    return render(request, "search/search.html", context, status=status)


def _sidebar(request: PageRequest, box: SearchBox) -> tuple[int, dict[str, Any]]:
    """The HTTP status and what the list shows; a query that cannot be searched for is said in its place."""
    cursor = request.GET.get("cursor", "")
    try:
        filters = _filters(box)
        if not box.q:
            return 200, _list(request, filters, cursor)
        if len(box.q) < MIN_QUERY_CHARS:
            return 200, {"too_short": MIN_QUERY_CHARS}
        query = _query(box, filters, RESULTS_LIMIT)
        return 200, _results(request, box, search_items(caller=request.user, query=query, cursor=cursor), cursor)
    except InvalidInput as error:
        return 422, {"error": str(error)}


def _query(box: SearchBox, filters: Filters, limit: int) -> SearchQuery:
    return SearchQuery(
        text=box.q, limit=limit, mode=box.mode, scope=frozenset(box.scope), filters=filters, has_operators=True
    )


def _filters(box: SearchBox) -> Filters:
    """Raises: InvalidInput on a date that is none, or the wrong way round."""
    return Filters(
        agent=box.agent,
        project=box.project,
        after=_moment(box.after, time.min),
        before=_moment(box.before, time.max),
        archived=box.archived,
        kinds=parse_kinds(box.kind),
    )


def _moment(text: str, at: time) -> datetime | None:
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise InvalidInput(f"{text[:40]!r} is not a date: write it as 2026-03-31.")
    try:
        return timezone.make_aware(datetime.combine(day, at)).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{text[:40]!r} is too far away: choose a nearer date.") from None


def _list(request: PageRequest, filters: Filters, cursor: str) -> dict[str, Any]:
    rows, next_cursor = page_of_conversations(owner=request.user, filters=filters, limit=LIST_LIMIT, cursor=cursor)
    context: dict[str, Any] = {"rows": list_rows(rows), "next_cursor": next_cursor}
    if not rows:
        context["nothing_imported"] = not _has_conversations(request)
    return context


def _results(request: PageRequest, box: SearchBox, results: MixedResults, cursor: str) -> dict[str, Any]:
    hits = [_section_view(hit, box) if isinstance(hit, SectionHit) else _view(hit, box) for hit in results.hits]
    context: dict[str, Any] = {"hits": hits, "next_cursor": results.next_cursor, "notes": results.notes}
    if not hits and not cursor:
        context["nothing_imported"] = not _has_conversations(request)
        context["pending"] = index_status(owner=request.user).pending
    return context


def _has_conversations(request: PageRequest) -> bool:
    return Conversation.objects.filter(owner_id=request.user.pk).exists()


def _view(hit: Hit, box: SearchBox) -> HitView:
    question = one_line(hit.user_question, QUESTION_CHARS)
    is_repeated = hit.passage.rstrip("…") in question
    return HitView(
        hit=hit,
        url=hit_address(hit, box),
        question=mark_words(question, box.q),
        passage=() if is_repeated else show_marks(hit.passage, hit.marks),
        percent=round(hit.similarity * 100),
        project_name=project_name(hit.project),
    )


def _section_view(hit: SectionHit, box: SearchBox) -> SectionView:
    heading = one_line(" > ".join(hit.heading_path), QUESTION_CHARS)
    parameters = {"section": hit.section, "from": hit.passage_start, "to": hit.passage_end} | box.parameters
    return SectionView(
        section=hit,
        url=f"{reverse('document', args=[hit.document_id])}?{urlencode(parameters)}#section-{hit.section}",
        heading=mark_words(heading, box.q),
        passage=show_marks(hit.passage, hit.marks),
        percent=round(hit.similarity * 100),
    )


def hit_address(hit: Hit, box: SearchBox) -> str:
    """The conversation at the hit's turn, with its passage highlighted."""
    parameters = {"turn": hit.turn_number} | box.parameters
    if hit.passage_message_id is not None:
        parameters |= {
            "m": hit.passage_message_id,
            "part": hit.passage_part,
            "from": hit.passage_start,
            "to": hit.passage_end,
        }
    address = reverse("conversation", args=[hit.conversation_id])
    return f"{address}?{urlencode(parameters)}#turn-{hit.turn_number}"


def show_marks(text: str, marks: Sequence[tuple[int, int]]) -> tuple[Piece, ...]:
    """A passage of Markdown in pieces as it reads, those at `marks` (start, end; in order) marked."""
    pieces, end = [], 0
    for start, stop in marks:
        pieces += [Piece(text[end:start], is_match=False), Piece(text[start:stop], is_match=True)]
        end = stop
    pieces.append(Piece(text[end:], is_match=False))
    pieces[0] = replace(pieces[0], text=_LINE_START.sub("", pieces[0].text))
    plain = (replace(piece, text=_EMPHASIS.sub("", piece.text)) for piece in pieces)
    return tuple(piece for piece in plain if piece.text)


def mark_words(text: str, query: str) -> tuple[Piece, ...]:
    """`text` in pieces, those that are words of the query marked; words that stand everywhere are not."""
    words = sorted({word.lower() for word in _WORDS.findall(query)} - _UNMARKED, key=len, reverse=True)
    if not words or not text:
        return (Piece(text, is_match=False),) if text else ()
    pattern = re.compile(rf"(\b(?:{'|'.join(map(re.escape, words))})\b)", re.IGNORECASE)
    pieces = pattern.split(text)
    return tuple(Piece(piece, is_match=bool(index % 2)) for index, piece in enumerate(pieces) if piece)


def _start(request: PageRequest, box: SearchBox) -> dict[str, Any]:
    """What the main area shows beside the list: the home page, or while somebody searches a hint."""
    return {"box": box} if box.parameters and _has_conversations(request) else {"box": box} | home_values(request)


def _address(request: PageRequest, box: SearchBox) -> str:
    """The address that stands for what is seen now: the main area's page with the query, or the search page."""
    current = urlsplit(request.htmx.current_url_abs_path or "")
    if _CONVERSATION_PATH.fullmatch(current.path):
        kept = {name: values[0] for name, values in parse_qs(current.query).items() if name in _KEPT_PARAMETERS}
        parameters = urlencode(kept | box.parameters)
        return f"{current.path}?{parameters}" if parameters else current.path
    if current.path in (reverse("home"), reverse("search")):
        return f"{reverse('search')}?{box.query_string}" if box.parameters else reverse("home")
    return ""


# --- hits in one conversation -----------------------------------------------------------------------


@require_safe
@signed_in
def hits_in(request: PageRequest) -> HttpResponse:
    """Where `?turn=` stands among the hits in `?conversation=`, in reading order, with links to its neighbours."""
    box = SearchBox.of(request)
    number, current = request.GET.get("conversation", ""), _turn(request)
    try:
        filters = replace(_filters(box), kinds=TURNS_ALONE)
        results = search(caller=request.user, query=_query(box, filters, MAX_LIMIT), may_rerank=False)
    except InvalidInput:
        return HttpResponse(status=204)
    hits = sorted((hit for hit in results.hits if str(hit.conversation_id) == number), key=lambda hit: hit.turn_number)
    if not hits:
        return HttpResponse(status=204)
    turns = [hit.turn_number for hit in hits]
    before = bisect_left(turns, current)
    after = bisect_right(turns, current)
    context = {
        "count": len(hits),
        "place": after if after > before else 0,
        "previous": hit_address(hits[before - 1], box) if before else "",
        "next": hit_address(hits[after], box) if after < len(hits) else "",
    }
    return render(request, "search/hits_in.html", context)


def _turn(request: PageRequest) -> int:
    text = request.GET.get("turn", "")
    return int(text) if _TURN.fullmatch(text) else -1


# --- filters and progress -------------------------------------------------------------------------


@require_safe
@signed_in
def filter_choices(request: PageRequest) -> HttpResponse:
    """The agents and projects to choose from, loaded when the filters are opened."""
    return render(request, "search/search.html#choices", _choices(request) | {"box": SearchBox.of(request)})


def _choices(request: PageRequest) -> dict[str, Any]:
    """One query; what an archive of thousands of conversations has in few agents and projects."""
    own = Conversation.objects.filter(owner_id=request.user.pk).order_by()
    pairs = list(own.values_list("agent", "project").distinct()[:CHOICES_LIMIT])
    projects = {project for _, project in pairs if project}
    return {
        "agents": sorted({agent for agent, _ in pairs if agent}, key=str.lower),
        "projects": sorted(projects, key=lambda project: project_name(project).lower()),
    }


@require_safe
@signed_in
def index_progress(request: PageRequest) -> HttpResponse:
    """The bar that shows how much of the archive waits for its index; it polls itself until nothing does."""
    status = index_status(owner=request.user)
    return render(request, "search/progress.html", {"status": status, "done": _percent_done(status)})


def _percent_done(status: IndexStatus) -> int:
    return 100 * status.embedded_turns // status.turns if status.turns else 100
