"""An export as a streamed response, so that its size takes no memory."""

import re
from collections.abc import AsyncIterator, Iterator

from django.contrib.auth.models import AbstractBaseUser
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from convmemory.conversations.exports.formats import exported, require_format
from convmemory.conversations.exports.selection import Selection
from convmemory.conversations.models import Conversation
from convmemory.core.threads import in_thread

NAME_CHARS = 60
_UNSAFE = re.compile(r"[^\w-]+")


def export_response(
    request: HttpRequest, *, owner: AbstractBaseUser, selection: Selection, format: str
) -> StreamingHttpResponse:
    """Return the selection as a download. Raises: InvalidInput on an unknown format, NotFound."""
    chosen = require_format(format)
    pieces = exported(owner=owner, selection=selection, format=chosen)
    response = StreamingHttpResponse(
        _in_threads(pieces) if isinstance(request, ASGIRequest) else pieces, content_type=chosen.media_type
    )
    response["Content-Disposition"] = f'attachment; filename="{_file_name(owner, selection)}.{chosen.suffix}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _in_threads(pieces: Iterator[str]) -> AsyncIterator[str]:
    """Yield the pieces, each produced in a thread that returns its database connection."""
    while (piece := await in_thread(next, pieces, None)) is not None:
        yield piece


def _file_name(owner: AbstractBaseUser, selection: Selection) -> str:
    """Return the name of the download: the title of the only conversation, reduced to plain letters."""
    if len(selection.ids) != 1:
        return "conversations"
    row = Conversation.objects.filter(owner_id=owner.pk, pk=selection.ids[0]).values_list("title", flat=True).first()
    # ASCII only: browsers disagree about other characters in this header.
    plain = (row or "")[: NAME_CHARS * 2].encode("ascii", "ignore").decode()
    return _UNSAFE.sub("-", plain).strip("-")[:NAME_CHARS].strip("-").lower() or f"conversation-{selection.ids[0]}"
