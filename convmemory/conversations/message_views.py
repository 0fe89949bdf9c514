"""Downloads of one message: its source text, and its pictures."""

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations import reading
from convmemory.conversations.parts import spoken_text
from convmemory.conversations.pictures import picture_of
from convmemory.core.errors import NotFound
from convmemory.core.numbers import MAX_INTEGER

NOTHING_RUNS = "default-src 'none'; sandbox"


@require_safe
@signed_in
def text(request: PageRequest, conversation_id: int, position: int) -> HttpResponse:
    """Return the message's text as Markdown, which *Copy message* puts on the clipboard."""
    found = reading.get_conversation(owner=request.user, conversation_id=conversation_id)
    message = found.messages.filter(position=min(position, MAX_INTEGER)).first()
    if message is None:
        raise NotFound(f"Conversation {conversation_id} has no message {position}.")
    answer = HttpResponse(spoken_text(message.typed_parts), content_type="text/plain; charset=utf-8")
    return _harmless(answer)


@require_safe
@signed_in
def picture(request: PageRequest, conversation_id: int, position: int, index: int) -> HttpResponse:
    """Return a picture attached to the message, with the media type of its first bytes."""
    found = picture_of(
        owner=request.user, conversation_id=conversation_id, position=min(position, MAX_INTEGER), index=index
    )
    answer = _harmless(HttpResponse(found.data, content_type=found.media_type))
    answer.headers["Cache-Control"] = "private, max-age=86400"
    return answer


def _harmless(answer: HttpResponse) -> HttpResponse:
    """Return the response with headers that keep the browser from running anything in it, whatever type it assumes."""
    answer.headers["Content-Security-Policy"] = NOTHING_RUNS
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer
