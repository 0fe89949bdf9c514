"""The outline of a conversation: its questions, the turns that a search found, and a search for words in it.

`/conversations/{id}/outline` answers with a page or, for htmx, with the panel. With `find` it lists the turns that
contain the words, in the order of the conversation; otherwise all questions, marking those found by the search in `q`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.filters import Filters
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.pages.views import whole_number
from convmemory.conversations.reading import FoundTurns, find_in_conversation, get_conversation, questions_of
from convmemory.core.errors import InvalidInput
from convmemory.core.titles import plain_title
from search.pages.groups import turn_url
from search.query import MIN_QUERY_CHARS, is_too_short
from search.retrieval.typing_errors import correct_typing_errors
from search.searching import MAX_LIMIT, TURNS_ALONE, Hit, SearchQuery, search

ROWS_SHOWN = 300


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """A turn in the outline; `url` leads to it, at the passage if one was found.

    `place` is its place among the turns that contain the words, from 1 on.
    """

    turn_number: int
    text: str
    url: str
    is_hit: bool = False
    is_current: bool = False
    place: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """A search for words in a conversation: the number of turns that contain them, and the place of the first from
    the turn that is read on, from 1; 0 if there is none. `typed` are the words that were typed if none contains them.
    """

    words: str
    count: int
    place: int
    typed: str = ""

    @property
    def sentence(self) -> str:
        missing = gettext("“%(words)s” does not occur here.") % {"words": self.typed or self.words}
        if not self.count:
            return missing
        text = ngettext("%(count)s turn with “%(words)s”", "%(count)s turns with “%(words)s”", self.count)
        sentence = text % {"count": self.count, "words": self.words}
        return f"{missing} {sentence}" if self.typed else sentence


@require_safe
@in_archive
def outline(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the questions of a conversation, or the turns that contain `find`."""
    conversation = get_conversation(caller=request.caller, conversation_id=conversation_id)
    box, words = SearchBox.of(request), request.GET.get("find", "").strip()
    current = whole_number(request, "turn")
    address = reverse("outline", args=[conversation.pk])

    def part(**values: int | str) -> str:
        return f"{address}?{urlencode(values | box.parameters, doseq=True)}"

    context: dict[str, Any] = {"conversation": conversation, "box": box, "find": words, "current": current}
    context["questions_url"] = part(**({} if current is None else {"turn": current}))
    if not words:
        context |= _questions(request, conversation.pk, box, current, part)
    elif is_too_short(words):
        context["error"] = gettext("Write at least %(number)s characters.") % {"number": MIN_QUERY_CHARS}
    else:
        context |= _turns_with(request, conversation.pk, words, current or 0, box, part)
    is_panel = request.htmx and request.htmx.target != "main"
    return render(request, "conversations/outline.html#panel" if is_panel else "conversations/outline.html", context)


def _turns_with(
    request: PageRequest, conversation_id: int, words: str, current: int, box: SearchBox, part: Callable[..., str]
) -> dict[str, Any]:
    """Return the turns whose messages contain the words, around the current one, and the ways to the others.

    If none does, words with typing errors are corrected.
    """

    def turns_with(words: str) -> FoundTurns:
        return find_in_conversation(
            caller=request.caller, conversation_id=conversation_id, words=words, from_turn=current, limit=ROWS_SHOWN
        )

    turns, typed = turns_with(words), ""
    if not turns.turns and (correction := correct_typing_errors(request.caller.archive_id, words)):
        meant = turns_with(correction.text)
        if meant.turns:
            turns, typed, words = meant, words, correction.text
    rows = []
    for position, one in enumerate(turns.texts, turns.start):
        parameters = {"turn": one.turn_number, "m": one.message_id, "part": one.part_index}
        parameters |= {"from": one.start, "to": one.end} | box.parameters
        address = f"{reverse('conversation', args=[conversation_id])}?{urlencode(parameters, doseq=True)}"
        url = f"{address}#turn-{one.turn_number}"
        rows.append(OutlineRow(one.turn_number, one.excerpt, url, is_current=position == turns.at, place=position + 1))
    earlier = turns.turns[turns.start - 1] if turns.start else None
    later = turns.turns[turns.end] if turns.end < len(turns.turns) else None
    return {
        "finding": Finding(words, len(turns.turns), turns.at + 1 if turns.turns else 0, typed),
        "rows": rows,
        "earlier": "" if earlier is None else part(find=words, turn=earlier),
        "later": "" if later is None else part(find=words, turn=later),
    }


def _questions(
    request: PageRequest, conversation_id: int, box: SearchBox, current: int | None, part: Callable[..., str]
) -> dict[str, Any]:
    """Return the questions from `from_turn` on, or those around the current turn."""
    from_turn = whole_number(request, "from_turn")
    start = (current or 0) // ROWS_SHOWN * ROWS_SHOWN if from_turn is None else from_turn
    questions, following = questions_of(
        caller=request.caller, conversation_id=conversation_id, from_turn=start, limit=ROWS_SHOWN
    )
    hits: dict[int, Hit] = {}
    if box.q:
        filters = replace(Filters(archived=None, conversation_id=conversation_id), kinds=TURNS_ALONE)
        with suppress(InvalidInput):
            query = SearchQuery(
                text=box.q, limit=MAX_LIMIT, mode=box.mode, scope=frozenset(box.scope), filters=filters,
                has_operators=True, may_rerank=False, compares_later=False,
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
            question.turn_number == current,
        )
        for question in questions
    ]
    return {
        "rows": rows,
        "earlier": part(from_turn=max(0, start - ROWS_SHOWN)) if start else "",
        "later": "" if following is None else part(from_turn=following),
    }
