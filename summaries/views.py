"""Pages of a conversation's summaries: request one, watch its progress, read, regenerate and delete it.

The URL of a summary returns a page or, for htmx, its card, which polls every two seconds until the summary is finished.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.models import Conversation
from convmemory.conversations.pages.markdown_html import render_markdown
from convmemory.conversations.reading import get_conversation
from convmemory.core.endpoints.completions import endpoint_from_settings
from convmemory.core.errors import InvalidInput, QuotaUsedUp
from convmemory.core.numbers import MAX_INTEGER, number_or_refuse, parse_number
from summaries import ordering
from summaries.models import ConversationSummary
from summaries.ordering import TurnRange, positions_of_turns, turn_ranges
from summaries.tasks import enqueue_summary


@dataclass(frozen=True, slots=True)
class SummaryCard:
    """A summary as the page shows it."""

    summary: ConversationSummary
    html: SafeString
    turns: TurnRange

    @property
    def heading(self) -> str:
        """Return the turns that it covers, or the messages if an end belongs to no turn, counted from 1."""
        first, last = self.turns.first, self.turns.last
        if first is None or last is None:
            values = {"first": self.summary.from_position + 1, "last": self.summary.to_position + 1}
            return _("Messages %(first)s to %(last)s") % values
        if first == last:
            return _("Turn %(number)s") % {"number": first + 1}
        return _("Turns %(first)s to %(last)s") % {"first": first + 1, "last": last + 1}

    @property
    def name(self) -> str:
        return _("Summary: %(range)s") % {"range": self.heading}


def _cards(conversation: Conversation, rows: Sequence[ConversationSummary]) -> list[SummaryCard]:
    turns = turn_ranges(conversation, rows)
    return [SummaryCard(row, render_markdown(row.content), turns[row.pk]) for row in rows]


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def summaries(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the form and all summaries; a POST with `from_turn`, `to_turn` and `method` requests one."""
    conversation = get_conversation(caller=request.caller, conversation_id=conversation_id)
    wrong, status = "", 200
    if request.method == "POST":
        try:
            first, last = positions_of_turns(conversation, _turn(request, "from_turn"), _turn(request, "to_turn"))
            summary = ordering.request_summary(
                caller=request.caller,
                conversation_id=conversation.pk,
                from_position=first,
                to_position=last,
                method=request.POST.get("method") or None,
            )
        except (InvalidInput, QuotaUsedUp) as error:
            wrong, status = str(error), 429 if isinstance(error, QuotaUsedUp) else 422
        else:
            enqueue_summary(archive_id=summary.archive_id, summary_id=summary.pk)
            return redirect("summaries", conversation_id=conversation_id)
    rows = ordering.summaries_of(caller=request.caller, conversation_id=conversation_id)
    names = ("from_turn", "to_turn", "method")
    fields = {name: request.POST.get(name, "") for name in names}
    if request.method != "POST" and (turn := parse_number(request.GET.get("to_turn", ""))) is not None:
        fields["to_turn"] = str(turn + 1)  # the address counts from 0
    context = _head(conversation) | {
        "cards": _cards(conversation, rows),
        "is_working": any(row.is_unfinished for row in rows),
        "wrong": wrong,
        "given": fields,
        "endpoint": endpoint_from_settings(),
    }
    return render(request, "summaries/summaries.html", context, status=status)


def _head(conversation: Conversation) -> dict[str, Any]:
    return {"conversation": conversation}


def _turn(request: HttpRequest, name: str) -> int | None:
    """Return the turn number in a form field, in which people count from 1."""
    text = request.POST.get(name, "").strip()
    refusal = f"{text[:40]!r} is not the number of a turn: use 1, 2, 3, …"
    number = number_or_refuse(text, refusal, minimum=1, maximum=MAX_INTEGER)
    return None if number is None else number - 1


@require_safe
@in_archive
def summary(request: PageRequest, conversation_id: int, summary_id: int) -> HttpResponse:
    """Show one summary, as a page or as its card alone."""
    row = ordering.get_summary(caller=request.caller, conversation_id=conversation_id, summary_id=summary_id)
    [card] = _cards(row.conversation, [row])
    template = "summaries/card.html" if request.htmx else "summaries/summary.html"
    return render(request, template, _head(row.conversation) | {"card": card, "is_working": row.is_unfinished})


@require_POST
@in_archive
def regenerate(request: PageRequest, conversation_id: int, summary_id: int) -> HttpResponse:
    """Regenerate the summary; htmx gets the card, which then polls."""
    row = ordering.regenerate_summary(caller=request.caller, conversation_id=conversation_id, summary_id=summary_id)
    enqueue_summary(archive_id=row.archive_id, summary_id=row.pk)
    if request.htmx:
        [card] = _cards(row.conversation, [row])
        return render(request, "summaries/card.html", {"card": card, "conversation": row.conversation})
    return redirect("summaries", conversation_id=conversation_id)


@require_POST
@in_archive
def delete(request: PageRequest, conversation_id: int, summary_id: int) -> HttpResponse:
    """Delete the summary for good."""
    ordering.delete_summary(caller=request.caller, conversation_id=conversation_id, summary_id=summary_id)
    messages.success(request, _("The summary is deleted."))
    return redirect("summaries", conversation_id=conversation_id)
