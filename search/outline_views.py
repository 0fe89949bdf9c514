"""The outline of a conversation: its questions, the turns that a search found, and a search for words in it.

`/conversations/{id}/outline` answers with a page or, for htmx, with the panel. With `find` it lists the turns that
contain the words, in the order of the conversation; otherwise all questions, marking those found by the search in `q`.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.filters import Filters
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.pages.views import whole_number
from convmemory.conversations.reading import find_in_conversation, get_conversation, questions_of
from convmemory.core.errors import InvalidInput
from convmemory.core.titles import plain_title
from search.pages.groups import turn_url
from search.query import MIN_QUERY_CHARS, is_too_short
from search.retrieval.typing_errors import correct_typing_errors
from search.searching import MAX_LIMIT, TURNS_ALONE, Hit, SearchQuery, search

QUESTIONS_SHOWN = 300


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A turn in the outline; `url` leads to it, at the passage if one was found."""

    turn_number: int
    text: str
    url: str
    is_hit: bool = False


@require_safe
@in_archive
def outline(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the questions of a conversation, or the turns that contain `find`."""
    found = get_conversation(caller=request.caller, conversation_id=conversation_id)
    box, words = SearchBox.of(request), request.GET.get("find", "").strip()
    context: dict[str, Any] = {"conversation": found, "box": box, "keep": box.query_string, "find": words}
    context["current"] = whole_number(request, "turn")
    context |= _found(request, found.pk, words) if words else _questions(request, found.pk, box)
    is_panel = request.htmx and request.htmx.target != "main"
    return render(request, "conversations/outline.html#panel" if is_panel else "conversations/outline.html", context)


def _found(request: PageRequest, conversation_id: int, words: str) -> dict[str, Any]:
    """Return the turns whose messages contain the words."""
    if is_too_short(words):
        return {"rows": [], "error": _("Write at least %(number)s characters.") % {"number": MIN_QUERY_CHARS}}
    found = find_in_conversation(caller=request.caller, conversation_id=conversation_id, words=words, limit=MAX_LIMIT)
    typed = ""
    if not found and (correction := correct_typing_errors(request.caller.archive_id, words)):
        meant = find_in_conversation(
            caller=request.caller, conversation_id=conversation_id, words=correction.text, limit=MAX_LIMIT
        )
        if meant:
            found, typed, words = meant, words, correction.text
    rows = []
    for one in found:
        place = {"turn": one.turn_number, "m": one.message_id, "part": one.part_index}
        parameters = {**place, "from": one.start, "to": one.end, **SearchBox(q=words).parameters}
        rows.append(
            OutlineRow(
                one.turn_number,
                one.excerpt,
                f"{reverse('conversation', args=[conversation_id])}?{urlencode(parameters)}#turn-{one.turn_number}",
                is_hit=True,
            )
        )
    return {"rows": rows, "is_cut": len(rows) == MAX_LIMIT, "find": words, "typed": typed}


def _questions(request: PageRequest, conversation_id: int, box: SearchBox) -> dict[str, Any]:
    start = whole_number(request, "from_turn") or 0
    questions, following = questions_of(
        caller=request.caller, conversation_id=conversation_id, from_turn=start, limit=QUESTIONS_SHOWN
    )
    hits: dict[int, Hit] = {}
    if box.q:
        filters = replace(Filters(archived=None, conversation_id=conversation_id), kinds=TURNS_ALONE)
        with suppress(InvalidInput):
            query = SearchQuery(
                text=box.q, limit=MAX_LIMIT, mode=box.mode, scope=frozenset(box.scope), filters=filters,
                has_operators=True, may_rerank=False,
            )  # fmt: skip
            hits = {hit.number: hit for hit in search(caller=request.caller.alone(), query=query).hits}
    address = f"/conversations/{conversation_id}?turn="
    keep = f"&{box.query_string}" if box.parameters else ""
    rows = [
        OutlineRow(
            question.turn_number,
            plain_title(question.text, len(question.text)) or question.text,
            turn_url(hits[question.turn_number], box)
            if question.turn_number in hits
            else f"{address}{question.turn_number}{keep}#turn-{question.turn_number}",
            question.turn_number in hits,
        )
        for question in questions
    ]
    return {"rows": rows, "next_turn": following}
