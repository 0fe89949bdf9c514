"""The export formats by name, and an export as pieces of text or as a response, one message in memory at a time."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol

from django.http import StreamingHttpResponse
from django.utils.translation import get_language, override

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.conversations.exports.html_page import HtmlWriter
from convmemory.conversations.exports.json_file import JsonWriter
from convmemory.conversations.exports.markdown_text import MarkdownWriter
from convmemory.conversations.exports.selection import ExportedMessage, ExportSelection, chosen, messages_of
from convmemory.conversations.models import Conversation
from convmemory.core.errors import InvalidInput

PIECE_CHARS = 64 * 1024
PIECE_S = 0.01  # a search of another user waits for the interpreter as long as a piece is made


class Writer(Protocol):
    """Turns conversations into text of one format; its methods are called in this order."""

    def begin(self) -> str: ...

    def conversation(self, conversation: Conversation) -> str: ...

    def message(self, message: ExportedMessage) -> Iterator[str]: ...

    def end_of_conversation(self) -> Iterator[str]: ...

    def end(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the suffix of its files, their media type, and a writer for one export."""

    suffix: str
    media_type: str
    writer: Callable[[], Writer]


FORMATS: Mapping[str, Format] = {
    "markdown": Format("md", "text/markdown; charset=utf-8", MarkdownWriter),
    "json": Format("json", "application/json", JsonWriter),
    "html": Format("html", "text/html; charset=utf-8", HtmlWriter),
}


def require_format(name: str) -> Format:
    """Return the format of this name. Raises: InvalidInput if there is none."""
    if name not in FORMATS:
        raise InvalidInput(f"Unknown format {name[:40]!r}: give one of {', '.join(FORMATS)}.")
    return FORMATS[name]


def exported(*, caller: Caller, selection: ExportSelection, format: Format) -> Iterator[str]:
    """Yield the caller's conversations as text, in pieces of about 64 KB, or what takes 10 ms.

    Raises: NotFound, before the first piece is read.
    """
    conversations = chosen(caller=caller, selection=selection)
    # The request, whose language it is, has ended by then.
    texts = each_within(partial(override, get_language()), _texts(conversations, selection, format.writer()))
    return _in_pieces(texts)


def record_export(*, caller: Caller, selection: ExportSelection) -> None:
    """Record an export in the audit log."""
    ids = selection.ids
    what = f"{len(ids)} conversations" if len(ids) > 1 else f"conversation {ids[0]}" if ids else "conversations"
    record(Action.EXPORTED, what=what, person_id=caller.person_id, about_id=caller.archive_id)


def _texts(conversations: Iterator[Conversation], selection: ExportSelection, writer: Writer) -> Iterator[str]:
    yield writer.begin()
    for conversation in conversations:
        yield writer.conversation(conversation)
        for message in messages_of(conversation, selection):
            yield from writer.message(message)
        yield from writer.end_of_conversation()
    yield writer.end()


def each_within(context: Callable[[], AbstractContextManager[object]], texts: Iterator[str]) -> Iterator[str]:
    """Yield the texts, each made in a new context: a generator leaves that of its caller between two texts."""
    while True:
        with context():
            text = next(texts, None)
        if text is None:
            return
        yield text


def _in_pieces(texts: Iterator[str]) -> Iterator[str]:
    waiting: list[str] = []
    size, started = 0, monotonic()
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= PIECE_CHARS or (size and monotonic() > started + PIECE_S):
            yield "".join(waiting)
            waiting, size, started = [], 0, monotonic()
    if size:
        yield "".join(waiting)


NAME_CHARS = 60
_UNSAFE = re.compile(r"[^\w-]+")


def export_response(*, caller: Caller, selection: ExportSelection, format: str) -> StreamingHttpResponse:
    """Return the selection as a download. Raises: InvalidInput on an unknown format, NotFound."""
    chosen = require_format(format)
    pieces = exported(caller=caller, selection=selection, format=chosen)
    response = streamed(pieces, media_type=chosen.media_type)
    record_export(caller=caller, selection=selection)
    # The name of the download: the title of the only conversation, reduced to plain letters.
    if len(selection.ids) != 1:
        file_name = "conversations"
    else:
        row = (
            Conversation.objects.filter(archive_id=caller.archive_id, pk=selection.ids[0])
            .values_list("title", flat=True)
            .first()
        )
        # ASCII only: browsers disagree about other characters in this header.
        plain = (row or "")[: NAME_CHARS * 2].encode("ascii", "ignore").decode()
        file_name = (
            _UNSAFE.sub("-", plain).strip("-")[:NAME_CHARS].strip("-").lower() or f"conversation-{selection.ids[0]}"
        )
    response["Content-Disposition"] = f'attachment; filename="{file_name}.{chosen.suffix}"'
    return response


def streamed(pieces: Iterator[str], *, media_type: str) -> StreamingHttpResponse:
    """Return a response that reads each piece when it sends it."""
    response = StreamingHttpResponse(pieces, content_type=media_type)
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
