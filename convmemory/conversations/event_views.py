"""The event log of a conversation as a page: a form with filters, and a table with a link to more rows."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations import reading
from convmemory.conversations.views import whole_number
from convmemory.core.errors import InvalidInput
from convmemory.core.numbers import MAX_BIGINT

EVENTS_PER_PAGE = 100
TEXT_FIELDS = ("q", "type", "tool", "level", "turn", "after", "before")


@require_safe
@signed_in
def events(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Render the events of one conversation that pass the filters in the address, oldest first."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    given = {name: request.GET.get(name, "").strip() for name in TEXT_FIELDS}
    context: dict[str, Any] = {"conversation": found, "given": given, "rows": [], "next": ""}
    try:
        rows = reading.search_events(
            owner=request.user,
            conversation_id=found.pk,
            filters=_filters(request, given),
            after_id=whole_number(request, "after_id", MAX_BIGINT) or 0,
            limit=EVENTS_PER_PAGE + 1,
        )
    except InvalidInput as error:
        return render(request, "conversations/events.html", context | {"wrong": str(error)}, status=422)
    shown = list(rows[:EVENTS_PER_PAGE])
    if len(rows) > len(shown):
        kept = {name: value for name, value in given.items() if value}
        context["next"] = urlencode({**kept, "after_id": shown[-1].pk})
    context |= {"rows": shown, "is_filtered": any(given.values())}
    return render(request, "conversations/events.html", context)


def _filters(request: PageRequest, given: dict[str, str]) -> reading.EventFilters:
    return reading.EventFilters(
        words=given["q"],
        type=given["type"],
        tool=given["tool"],
        level=given["level"],
        turn=whole_number(request, "turn"),
        after=_moment("after", given["after"]),
        before=_moment("before", given["before"]),
    )


def _moment(name: str, text: str) -> datetime | None:
    """Return a time in the form of `<input type="datetime-local">`, read as UTC. Raises: InvalidInput."""
    if not text:
        return None
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput(f"{name}={text[:40]!r} is no time: write it as 2026-03-01T09:00.")
    return make_aware(found) if is_naive(found) else found
