"""The live preview next to the results: one turn, or one section with its neighbours, with the passage marked."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations import reading
from convmemory.conversations.reading import project_name
from convmemory.conversations.rendering import view_messages
from convmemory.conversations.search_box import SearchBox
from convmemory.conversations.steps import fold_steps
from convmemory.conversations.views import passage_of, whole_number
from convmemory.conversations.windows import window_around
from convmemory.documents.library import get_document
from convmemory.documents.viewing import Place, view_sections

SECTIONS_BESIDE = 1


@require_safe
@signed_in
def preview_turn(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the messages of `?turn=N`, or those around the passage if the turn is long."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    turn, passage = whole_number(request, "turn") or 0, passage_of(request)
    window = window_around(found, turn, passage.message_id if passage else None)
    shown = [message for message in window.messages if message.turn_number == turn] or window.messages
    blocks = fold_steps(view_messages(shown, turn_before=None, target=turn, passage=passage))
    context = {
        "conversation": found,
        "window": window,
        "blocks": blocks,
        "address": f"{found.get_absolute_url()}?{request.GET.urlencode()}#turn-{turn}",
        "keep": SearchBox.of(request).query_string,
        "turn": turn,
        "place": turn + 1,
        "project_name": project_name(found.project),
    }
    return render(request, "search/preview_turn.html", context)


@require_safe
@signed_in
def preview_section(request: PageRequest, document_id: int) -> HttpResponse:
    """Show the section `?section=N` and its neighbours."""
    found = get_document(owner=request.user, document_id=document_id)
    section = whole_number(request, "section") or 0
    place = Place(section, whole_number(request, "from"), whole_number(request, "to"))
    window = view_sections(found, place, before=SECTIONS_BESIDE, shown=1 + 2 * SECTIONS_BESIDE)
    context = {
        "document": found,
        "views": window.views,
        "address": f"{found.get_absolute_url()}?{request.GET.urlencode()}#section-{section}",
    }
    return render(request, "search/preview_section.html", context)
