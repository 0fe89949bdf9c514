"""Stars, pins and tags of one conversation. Answers htmx with the control alone, others with a redirect back."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations import curating, reading


@require_POST
@signed_in
def star(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Star the conversation (`starred=1`), or remove its star (`starred=0`)."""
    starred = request.POST.get("starred", "1") == "1"
    curating.set_star(owner=request.user, conversation_id=conversation_id, starred=starred)
    return _answer(request, conversation_id, "conversations/star.html")


@require_POST
@signed_in
def pin(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Pin the conversation to the top of the library (`pinned=1`), or unpin it (`pinned=0`)."""
    pinned = request.POST.get("pinned", "1") == "1"
    curating.set_pin(owner=request.user, conversation_id=conversation_id, pinned=pinned)
    return _answer(request, conversation_id, "conversations/pin.html")


@require_POST
@signed_in
def change_tags(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Add a tag to the conversation (`add`), or remove one (`remove`)."""
    chosen = [reading.get_conversation(owner=request.user, conversation_id=conversation_id).pk]
    if name := request.POST.get("remove", ""):
        curating.remove_tag(owner=request.user, conversation_ids=chosen, name=name)
    else:
        curating.add_tag(owner=request.user, conversation_ids=chosen, name=request.POST.get("add", ""))
    return _answer(request, conversation_id, "conversations/tags.html")


def _answer(request: PageRequest, conversation_id: int, template: str) -> HttpResponse:
    if not request.htmx:
        return redirect(came_from(request) or f"/conversations/{conversation_id}")
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    tags = curating.tags_of(owner=request.user, conversation_ids=[found.pk]).get(found.pk, [])
    return render(request, template, {"conversation": found, "tags": tags})


def came_from(request: PageRequest) -> str:
    """Return the address in `next` if it belongs to this site; else nothing."""
    address = request.POST.get("next", "")
    is_ours = address.startswith("/") and url_has_allowed_host_and_scheme(address, allowed_hosts=None)
    return address if is_ours else ""
