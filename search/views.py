"""The search page and its list, the preview of a result, and the command palette.

`/` and `/search` answer with a whole page, the list alone (htmx, while typing), its next page (htmx), or the reading
pane's welcome (htmx, coming back from a conversation), all at the same URL.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from django.db.models import Max
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import push_url, replace_url

from convmemory.accounts.callers import Access, latest_first
from convmemory.accounts.pages import PageRequest, archive_choices, enter_archive_of, in_archive, signed_in
from convmemory.conversations import reading
from convmemory.conversations.filters import DECLARED, EVERYTHING, EXACT, Filters, filters_of
from convmemory.conversations.marking import marks_of
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.rendering import fold_steps, view_messages
from convmemory.conversations.pages.search_box import SearchBox, impossible_filters, misspelt_filters
from convmemory.conversations.pages.views import LIST_LIMIT, passage_of, whole_number
from convmemory.conversations.pages.windows import window_around
from convmemory.conversations.reading import page_of_archives
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.numbers import parse_number
from convmemory.core.templatetags.shell import unusable_in
from convmemory.documents.library import get_document
from convmemory.documents.viewing import Target, view_sections
from search.home import home_values, period_of, period_values
from search.indexing.status import index_status, indexing_pace
from search.models import PastSearch, Source
from search.pages.answers import best_passage
from search.pages.chips import choices_of, day_of, presets_of, with_full_names
from search.pages.groups import by_band, group_hits, label_of_unlikely, silence, turn_url
from search.pages.palette import palette_sections
from search.pages.past_searches import forget_search, note_use, past_searches, remember_search, save_search
from search.pages.time_sentences import sentence_of_time
from search.query import MIN_QUERY_CHARS, is_too_short
from search.ranking.time_names import name_of_time, note_on_time
from search.reasons import Reason
from search.searching import (
    MAX_LIMIT,
    TURNS_ALONE,
    SearchQuery,
    SearchResults,
    parse_kinds,
    search,
)

RESULTS_LIMIT = 30
COUNTED_SEARCHES, COUNTED_HITS = 5, 20  # of the saved searches, whose new hits are counted
LANE_HITS = 50  # of each of these in the river
EXAMPLES = ("is:starred", "has:code", "role:user", "title:invoice", "after:2026")
NAMED_SPACES = 8  # in the refusal of an unknown one
_CONVERSATION_PATH = re.compile(r"/(?:conversations|documents)/\d+")
_KEPT_PARAMETERS = ("turn", "section", "from", "to")  # of an address that is read at, when the query in it changes


@require_safe
@in_archive
def search_page(request: PageRequest) -> HttpResponse:
    """Show results for `?q=`, or the newest conversations without a query."""
    if request.htmx and request.htmx.target == "main":
        searched = SearchBox.of(request)
        is_filled = bool(searched.parameters) and _has_conversations(request)
        main = _start(request, searched, is_filled=is_filled) | _past(request)
        return render(request, "search/search.html#main", main)
    step = request.headers.get("X-Search-Step", "")
    # The box of the request, with the full names of agents, projects and sources that were typed as tokens.
    box = SearchBox.of(request, is_typing=step in ("typed", "goes-on"))
    if request.caller.space or not box.q:
        box = box.but({"space": ""})  # a space that is open is searched alone, and lists are of one archive
    if box.typed & set(EXACT):
        box = with_full_names(box, choices_of(request.caller, box.but(dict.fromkeys(EXACT, ()))))
    # The HTTP status and the contents of the list; for an invalid query, the reason.
    cursor = request.GET.get("cursor", "")
    try:
        filters = _filters(box)
        spaces = [] if request.caller.space else request.caller.spaces
        chosen = _space_of(box, spaces)
        if not box.q:
            caller = request.caller if chosen else request.caller.alone()
            listed, next_cursor = page_of_archives(
                caller=caller, filters=filters, limit=LIST_LIMIT, chosen=chosen, cursor=cursor
            )
            rows = [row for row, _ in listed]
            listing: dict[str, Any] = {"rows": rows, "next_cursor": next_cursor}
            if not rows:
                listing["nothing_imported"] = not _has_conversations(request)
            status, context = 200, listing
        elif is_too_short(box.q):
            status, context = 200, {"too_short": MIN_QUERY_CHARS}
        else:
            query = _query(box, filters, MAX_LIMIT if box.sort else RESULTS_LIMIT)
            # A page with a space open shows that space alone.
            results = search(caller=request.caller, query=query, chosen=chosen, cursor=cursor)
            status, context = 200, _results(request, box, query, results, cursor)
            if spaces:
                context["spaces"] = [
                    (box.but({"space": value}).query_string, name, value == box.space)
                    for value, name in archive_choices(spaces)
                ]
    except InvalidInput as error:
        status, context = 422, {"error": str(error)}
    context |= {"box": box, "examples": EXAMPLES, "keep": box.query_string, "keep_time": box.without("when")}
    context["is_chosen"] = step == "chosen"
    if (context.get("groups") or context.get("titles")) and not cursor and not request.caller.space:
        remember_search(caller=request.caller, box=box)
    if request.htmx:
        return _part(request, box, context, status, step)
    context |= _around(request, box, context)
    return render(request, "search/search.html", context, status=status)


def _around(request: PageRequest, box: SearchBox, listing: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of the page around the list, without what only a page without results shows.

    Next to results the chips are filled when one is opened (`filter_choices`), without scripts by `?choices`.
    """
    is_listed = "groups" in listing or "rows" in listing
    is_filled = not listing.get("nothing_imported") if is_listed else _has_conversations(request)
    around = _start(request, box, listing.get("rows"), is_filled=is_filled)
    if not box.q or "choices" in request.GET:
        around |= _choices(request, box)
    if "groups" not in listing or "home" in around:
        around |= _past(request)
    return around


def _past(request: PageRequest) -> dict[str, Any]:
    """Return the person's past searches; a space has none."""
    if request.caller.space:
        return {}
    saved, recent = past_searches(request.caller)
    return {"saved": saved, "recent": recent}


def _part(request: PageRequest, box: SearchBox, context: dict[str, Any], status: int, step: str) -> HttpResponse:
    """Render the list alone, or its next page; the URL changes with the list."""
    if request.GET.get("cursor"):
        return render(request, "search/search.html#more", context, status=status)
    # The current URL: the main area's page with the query, or the search page.
    current = urlsplit(request.htmx.current_url_abs_path or "")
    if _CONVERSATION_PATH.fullmatch(current.path):
        kept = {name: values[0] for name, values in parse_qs(current.query).items() if name in _KEPT_PARAMETERS}
        parameters = urlencode(kept | box.parameters, doseq=True)
        address = f"{current.path}?{parameters}" if parameters else current.path
    elif current.path in (reverse("home"), reverse("search")):
        address = f"{reverse('search')}?{box.query_string}" if box.parameters else reverse("home")
    else:
        address = ""
    context["is_search_page"] = urlsplit(address).path in (reverse("home"), reverse("search"))
    response = render(request, "search/search.html#results", context, status=status)
    if box.typed:
        taken = {"sent": request.GET.get("q", ""), "rest": box.text, "fields": box.typed_fields}
        response.headers["HX-Trigger-After-Swap"] = json.dumps({"tokens-taken": taken})
    if not address:
        return response
    is_new = step in ("typed", "chosen") and address != request.htmx.current_url_abs_path
    return push_url(response, address) if is_new else replace_url(response, address)


def _query(box: SearchBox, filters: Filters, limit: int) -> SearchQuery:
    return SearchQuery(
        text=box.q, limit=limit, mode=box.mode, scope=frozenset(box.scope), filters=filters, has_operators=True,
        is_timeless=box.when == "any", shows_calls="tool" in box.scope,
    )  # fmt: skip


def _filters(box: SearchBox) -> Filters:
    """Raises: InvalidInput on an invalid date, or dates in the wrong order."""
    chosen = {name: getattr(box, name) for name in DECLARED}
    chosen |= {"after": _moment(box.after, time.min), "before": _moment(box.before, time.max)}
    return filters_of(chosen, kinds=parse_kinds(box.kind), tokens=box.conditions)


def _space_of(box: SearchBox, spaces: Sequence[Access]) -> str:
    """Return the number of the space that is typed or chosen. Raises: InvalidInput for an unknown name."""
    if not box.space_named:
        return box.space
    names = {_without_quotes(access.name): str(access.archive_id) for access in spaces} | {"mine": "mine"}
    typed = _without_quotes(box.space_named)
    begun = [value for name, value in names.items() if name.startswith(typed)]
    if typed in names or len(begun) == 1:
        return names.get(typed) or begun[0]
    listed = ", ".join([access.name for access in spaces][:NAMED_SPACES]) or gettext("none")
    refusal = gettext("You read no space “%(name)s” here. Spaces: %(names)s.")
    raise InvalidInput(refusal % {"name": box.space_named[:40], "names": listed})


def _without_quotes(name: str) -> str:
    """Return a name as it is compared: a token of the box, which may be in quotes, cannot have quotes in it."""
    return " ".join(name.replace('"', " ").split()).casefold()


def _moment(text: str, at: time) -> datetime | None:
    if not text:
        return None
    day = day_of(text)
    if day is None:
        raise InvalidInput(f"{text[:40]!r} is not a date: write it as 2026-03-31.")
    try:
        return timezone.make_aware(datetime.combine(day, at)).astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{text[:40]!r} is too far away: choose a nearer date.") from None


def _results(
    request: PageRequest, box: SearchBox, query: SearchQuery, results: SearchResults, cursor: str
) -> dict[str, Any]:
    """Return the hits in groups: best first, or the newest of the best first.

    There are none if no hit is likely to answer, unless the caller asks for the nearest.
    """
    is_silent = bool(results.hits) and results.is_unlikely and not (box.nearest or cursor)
    said_when = results.time.words_of_time if results.time else ""
    searched = results.correction.text if results.correction else box.q
    asked = " ".join(searched.split()).replace(said_when, " ", 1).strip()
    shown = [] if is_silent else results.hits
    groups = group_hits(shown, box, is_calibrated=results.is_calibrated, asked=asked)
    likely, unlikely = by_band(groups)
    explanation = results.explanation
    shown_elsewhere = {explanation.for_tools} if explanation else set()
    if results.time is not None:
        shown_elsewhere.add(note_on_time(results.time))
    if results.correction is not None:
        shown_elsewhere.add(results.correction.note)
    time_left_out = _query(replace(box, when=""), EVERYTHING, 1).time if box.when else None
    if box.sort:
        likely.sort(key=lambda group: group.created_at, reverse=True)
    context: dict[str, Any] = {
        "best": None if cursor else best_passage(query, results, box, asked=asked),
        "titles": results.titles,
        "groups": likely or unlikely,
        "unlikely": unlikely if likely else [],
        "unlikely_label": label_of_unlikely(sum(group.count for group in unlikely)),
        "hit_count": len(results.hits),
        "source_count": len(groups),
        "is_silent": is_silent,
        "next_cursor": None if box.sort or is_silent else results.next_cursor,
        "notes": [*notes_on_filters(box.q), *(note for note in results.notes if note not in shown_elsewhere)],
        "why": explanation.for_pages if explanation and not (is_silent and results.answered is False) else "",
        "silence": silence(box.q, is_waiting=results.answered is None),
        "correction": results.correction,
        "typed_exactly": results.correction and replace(box, q=results.correction.exactly(box.q)).query_string,
        "time": results.time,
        "time_sentence": sentence_of_time(
            results.time,
            [timezone.localdate(hit.created_at) for hit in shown],
            is_complete=not cursor and results.next_cursor is None,
        )
        if results.time and not cursor
        else "",
        "time_left_out": time_left_out,
        "time_left_out_name": name_of_time(time_left_out) if time_left_out else "",
    }
    if not groups and not results.titles and not cursor:
        is_empty = results.reason is Reason.NOTHING_STORED
        context["nothing_imported"] = is_empty and not _has_conversations(request)
    return context


def notes_on_filters(words: str) -> list[str]:
    """Return a note for each name before a colon that may have been meant as a filter."""
    sentence = gettext("“%(name)s:” is no filter and was searched for as text. “%(near)s:” is one.")
    takes = gettext("“%(name)s:” takes one of these: %(values)s. The rest was searched for as text.")
    return [
        *(sentence % {"name": name, "near": near} for name, near in misspelt_filters(words)),
        *(takes % {"name": name, "values": values} for name, values in impossible_filters(words)),
    ]


def _has_conversations(request: PageRequest) -> bool:
    return Conversation.objects.filter(archive_id=request.caller.archive_id).exists()


def _start(
    request: PageRequest, box: SearchBox, rows: Sequence[Conversation] | None = None, *, is_filled: bool
) -> dict[str, Any]:
    """Return the contents of the main area next to the list: the home page, or for a search by time alone that time.

    Next to other searches, if the archive `is_filled`, it is a hint. `rows` are the conversations of the list.
    """
    if not (box.parameters and is_filled):
        return {"box": box} | home_values(request, None if box.parameters else rows)
    if not (box.q or request.caller.space):
        note_use(caller=request.caller, box=box)
    period = period_of(box)
    return {"box": box} | (period_values(request, period) if period else {})


@require_safe
@in_archive
def hits_in(request: PageRequest) -> HttpResponse:
    """Show the place of `?turn=` among the hits in `?conversation=`, in reading order, with links to its neighbours."""
    box = SearchBox.of(request)
    number, turn = parse_number(request.GET.get("conversation", "")), parse_number(request.GET.get("turn", ""))
    if number is None:
        return HttpResponse(status=204)
    enter_archive_of(request, {"conversation_id": number})
    current = -1 if turn is None else turn
    try:
        filters = replace(_filters(box), kinds=TURNS_ALONE)
        query = replace(_query(box, filters, MAX_LIMIT), may_rerank=False, compares_later=False)
        results = search(caller=request.caller.alone(), query=query)
    except InvalidInput:
        return HttpResponse(status=204)
    hits = sorted((hit for hit in results.hits if hit.object_id == number), key=lambda hit: hit.number)
    if not hits:
        return HttpResponse(status=204)
    turns = [hit.number for hit in hits]
    before = bisect_left(turns, current)
    after = bisect_right(turns, current)
    context = {
        "count": len(hits),
        "place": after if after > before else 0,
        "previous": turn_url(hits[before - 1], box) if before else "",
        "next": turn_url(hits[after], box) if after < len(hits) else "",
    }
    return render(request, "search/hits_in.html", context)


@require_safe
@in_archive
def filter_choices(request: PageRequest) -> HttpResponse:
    """Show the values of the chips, loaded when the first one is opened."""
    box = SearchBox.of(request)
    return render(request, "search/search.html#choices", _choices(request, box) | {"box": box})


def _choices(request: PageRequest, box: SearchBox) -> dict[str, Any]:
    return {"chip_choices": choices_of(request.caller, box), "presets": presets_of(box, timezone.localdate())}


@require_POST
@signed_in
def keep_search(request: PageRequest) -> HttpResponse:
    """Save the search in the URL's query string, and return to it.

    Raises: InvalidInput, NotFound, as the search itself, if it cannot be searched for.
    """
    box = SearchBox.of(request)
    if box.q and is_too_short(box.q):
        sentence = gettext("Keep typing: a query has at least %(too_short)s characters.")
        raise InvalidInput(sentence % {"too_short": MIN_QUERY_CHARS})
    _dated_hits(request, box, None, 1)
    save_search(caller=request.caller, box=box)
    return redirect(f"{reverse('search')}?{box.query_string}")


@require_safe
@signed_in
def saved_searches(request: PageRequest) -> HttpResponse:
    """Show the saved searches, the newest with the number of their likely hits since each was last used.

    `?lanes` adds the likely hits of these to their lanes in the river of the page.
    """
    rows, _ = past_searches(request.caller)
    caller = request.caller
    changes = [changed_at for access, changed_at in latest_first(caller.archives) if access.space]
    changes += Source.objects.filter(archive_id=caller.archive_id).aggregate(at=Max("updated_at")).values()
    newest = max(filter(None, changes), default=datetime.min.replace(tzinfo=UTC))
    news = [_count_new(request, row) if row.used_at < newest else "" for row in rows[:COUNTED_SEARCHES]]
    lanes = [
        (row, new, [(*hit, hit.at > row.used_at) for hit in _likely_hits(request, row, None, LANE_HITS)])
        for row, new in zip(rows, news, strict=False)
        if "lanes" in request.GET
    ]
    saved = list(zip_longest(rows, news, fillvalue=""))
    return render(request, "search/saved_searches.html", {"saved": saved, "lanes": lanes})


def _count_new(request: PageRequest, row: PastSearch) -> str:
    """Return the number of likely hits, or without a query of conversations, since the search was used; "" for none."""
    count = len(_likely_hits(request, row, row.used_at, COUNTED_HITS))
    more = "+" if count == COUNTED_HITS else ""
    return f"{count}{more}" if count else ""


class DatedHit(NamedTuple):
    """A hit, or a conversation, in the lane of a saved search."""

    at: datetime
    url: str
    title: str


def _likely_hits(request: PageRequest, row: PastSearch, since: datetime | None, limit: int) -> list[DatedHit]:
    """Return the likely hits of a saved search, or without a query its conversations."""
    try:
        return _dated_hits(request, SearchBox.read(QueryDict(row.address)), since, limit)
    except (InvalidInput, NotFound):
        return []  # a search whose time is over, or of a space that the caller no longer reads


def _dated_hits(request: PageRequest, box: SearchBox, since: datetime | None, limit: int) -> list[DatedHit]:
    """Raises: InvalidInput, NotFound."""
    filters = _filters(box)
    filters = replace(filters, after=max(filter(None, (filters.after, since)), default=None))
    chosen = _space_of(box, request.caller.spaces)
    if box.q:
        query = replace(_query(box, filters, limit), may_rerank=False, compares_later=False)
        results = search(caller=request.caller, query=query, chosen=chosen)
        shown = [] if results.is_unlikely else results.hits
        likely, _ = by_band(group_hits(shown, box, is_calibrated=results.is_calibrated, asked=box.q))
        return [
            DatedHit(hit.created_at, hit.url, group.title) for group in likely for hit in (*group.shown, *group.more)
        ]
    caller = request.caller if chosen else request.caller.alone()
    listed, _ = page_of_archives(caller=caller, filters=filters, limit=limit, chosen=chosen)
    return [DatedHit(each.updated_at, each.get_absolute_url(), each.title) for each, _ in listed]


@require_POST
@signed_in
def drop_search(request: PageRequest, search_id: int) -> HttpResponse:
    """Delete one search from the lists."""
    forget_search(caller=request.caller, search_id=search_id)
    return redirect("search")


@require_safe
@in_archive
def index_progress(request: PageRequest) -> HttpResponse:
    """Show the progress bar of the index, which polls until all turns are indexed."""
    status = index_status(caller=request.caller)
    pace = indexing_pace(caller=request.caller, pending=status.pending) if status.pending else None
    return render(request, "search/progress.html", {"status": status, "pace": pace})


@require_safe
@in_archive
def palette(request: PageRequest) -> HttpResponse:
    """Show the palette's entries for `?go=`."""
    text = request.GET.get("go", "")
    left_out = unusable_in(request.chosen)
    sections = palette_sections(caller=request.caller, text=text, left_out=left_out)
    context = {"sections": sections, "text": text}
    return render(request, "search/palette.html#entries" if request.htmx else "search/palette.html", context)


NEIGHBOURING_SECTIONS = 1


@require_safe
@in_archive
def preview_turn(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the messages of `?turn=N`, or those around the passage if the turn is long."""
    conversation = reading.get_conversation(caller=request.caller, conversation_id=conversation_id)
    turn, passage = whole_number(request, "turn") or 0, passage_of(request)
    window = window_around(conversation, turn, passage.message_id if passage else None)
    shown = [message for message in window.messages if message.turn_number == turn] or window.messages
    marks = marks_of(archive_id=request.caller.archive_id, conversation_id=conversation.pk)
    views = view_messages(shown, turn_before=None, target=turn, passage=passage, marks=marks, outcomes=window.outcomes)
    blocks = fold_steps(views)
    context = {
        "conversation": conversation,
        "window": window,
        "blocks": blocks,
        "address": f"{conversation.get_absolute_url()}?{request.GET.urlencode()}#turn-{turn}",
        "keep": SearchBox.of(request).query_string,
        "turn": turn,
    }
    return render(request, "search/preview_turn.html", context)


@require_safe
@in_archive
def preview_section(request: PageRequest, document_id: int) -> HttpResponse:
    """Show the section `?section=N` and its neighbours."""
    document = get_document(caller=request.caller, document_id=document_id)
    section = whole_number(request, "section") or 0
    target = Target(section, whole_number(request, "from"), whole_number(request, "to"))
    window = view_sections(document, target, before=NEIGHBOURING_SECTIONS, shown=1 + 2 * NEIGHBOURING_SECTIONS)
    context = {
        "document": document,
        "views": window.views,
        "address": f"{document.get_absolute_url()}?{request.GET.urlencode()}#section-{section}",
    }
    return render(request, "search/preview_section.html", context)
