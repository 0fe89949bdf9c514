"""The page that asks where to move or copy conversations or a document, and does it."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext
from django.views.decorators.http import require_http_methods

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations.curating import MAX_CHOSEN
from convmemory.conversations.messages.hidden_keys import count_keys
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.numbers import number_or_refuse
from convmemory.documents.library import get_document
from convmemory.moving.carrying import Kind, carry, find_archive

SAID_REFUSALS = 5


def said_carried(count: int, archive_name: str, *, is_copy: bool) -> str:
    """Return the sentence for things that were copied or moved to an archive."""
    if is_copy:
        text = ngettext("Copied to %(place)s", "%(count)s copied to %(place)s", count)
    else:
        text = ngettext("Moved to %(place)s", "%(count)s moved to %(place)s", count)
    return text % {"count": count, "place": archive_name}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def move(request: PageRequest) -> HttpResponse:
    """Ask where the things that `conversation` or `document` names go; a POST moves them, or copies them (`copy=1`)."""
    parameters = request.POST if request.method == "POST" else request.GET
    kind: Kind = "document" if "document" in parameters else "conversation"
    refusal = f"{kind} takes the number of one, and can be repeated."
    numbers = list(dict.fromkeys(number_or_refuse(text, refusal) or 0 for text in parameters.getlist(kind)))
    if not 1 <= len(numbers) <= MAX_CHOSEN:
        raise InvalidInput(_("Choose 1 to %(most)s to move or copy.") % {"most": MAX_CHOSEN})
    back = f"/{kind}s/{numbers[0]}" if len(numbers) == 1 else "/library"
    if request.method == "POST":
        target = number_or_refuse(request.POST.get("space", ""), "space takes the number of a space.")
        is_copy = request.POST.get("copy") == "1"
        done, refusals = [], []
        for number in numbers:
            try:
                done.append(carry(caller=request.caller, kind=kind, object_id=number, space_id=target, is_copy=is_copy))
            except ConvMemoryError as error:
                if len(numbers) == 1:
                    raise
                refusals.append(f"{number}: {error}")
        if done:
            address = f"/{kind}s/{done[0]}" if len(done) == 1 or target is None else reverse("space", args=[target])
            name = next((access.name for access in request.caller.spaces if access.archive_id == target), "")
            sentence = said_carried(len(done), name or _("Your own archive"), is_copy=is_copy)
            later = _("Search finds it as soon as it is indexed.")
            link = format_html('<a href="{}">{}</a>', address, pgettext("verb", "Open"))
            shown = format_html("{} · {} {}", sentence, link, later) if is_copy else f"{sentence}. {later}"
            messages.success(request, shown)
        for reason in refusals[:SAID_REFUSALS]:
            messages.warning(request, reason)
        if more := len(refusals[SAID_REFUSALS:]):
            messages.warning(request, _("%(count)s more could not be moved or copied.") % {"count": more})
        return redirect(back)

    source = find_archive(caller=request.caller, kind=kind, object_id=numbers[0])
    with request.caller.in_(source) as caller:
        if kind == "document":
            document = get_document(caller=caller, document_id=numbers[0])
            title, hidden = document.title or document.name, 0
        else:
            title = get_conversation(caller=caller, conversation_id=numbers[0]).title
            hidden = count_keys(caller=caller, conversation_id=numbers[0])
    context = {
        "kind": kind,
        "numbers": numbers,
        "back": back,
        "title": title or _("Untitled conversation"),
        "hidden_keys": hidden,
        "source": source if source.space else None,
        "may_move": source.may_write,
        "spaces": [space for space in request.caller.spaces if space.may_write and space != source],
        "has_own": source.space is not None,
    }
    return render(request, "moving/move.html", context)
