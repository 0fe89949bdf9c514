"""Finds the pictures of a message in its raw source, for the page that shows them.

Stored messages only describe their attachments; the raw lines have the bytes. Reads at most `MAX_RAW_BYTES` of them,
and returns only data whose first bytes show that it is an image.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.attachments import ATTACHMENT_TYPES, attachment_of
from convmemory.conversations.messages.parts import AttachmentPart
from convmemory.conversations.models import MessageSource
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import NotFound

MAX_RAW_BYTES = 12 * 1024**2
MAX_BLOCKS = 20_000
_FIRST_BYTES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a picture and their media type."""

    data: bytes
    media_type: str


def picture_of(*, caller: Caller, conversation_id: int, position: int, index: int) -> Picture:
    """Return the picture for part `index` of a message. Raises: NotFound if its bytes are not stored."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    message = conversation.messages.filter(position=position).first()
    parts = message.typed_parts if message else ()
    part = parts[index] if index < len(parts) else None
    source = MessageSource.objects.filter(archive_id=caller.archive_id, message=message).first() if message else None
    if isinstance(part, AttachmentPart) and source is not None:
        # Stored parts have no reference into the source: of equal type and size, the order identifies them.
        earlier = sum(_is_same(other, part) for other in parts[:index] if isinstance(other, AttachmentPart))
        payloads = _payloads(bytes(source.data), part)
        if picture := _decoded(next((payload for at, payload in enumerate(payloads) if at == earlier), ""), part):
            return picture
    raise NotFound("This picture was not kept.")


def _is_same(one: AttachmentPart, other: AttachmentPart) -> bool:
    return (one.media_type, one.size_bytes) == (other.media_type, other.size_bytes)


def _payloads(raw: bytes, part: AttachmentPart) -> Iterator[str]:
    """Yield the base64 texts in a message's raw source with the part's type and size, in order."""
    for block in _blocks(raw):
        if _is_same(attachment_of(block, str(block["type"])), part):
            for level in (block, *(value for value in block.values() if isinstance(value, Mapping))):
                for value in level.values():
                    if isinstance(value, str) and len(value) * 3 // 4 >= part.size_bytes:
                        yield value.partition("base64,")[2] or value
                        break


def _blocks(raw: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in the raw lines that represent attachments, in order."""
    try:
        lines = zlib.decompressobj().decompress(raw, MAX_RAW_BYTES).split(b"\n")
    except zlib.error:
        lines = []
    waiting: list[Any] = []
    for line in reversed(lines):
        try:
            waiting.append(json.loads(line))
        except (ValueError, RecursionError):
            waiting.append(None)
    for _ in range(MAX_BLOCKS):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("type"), str) and value["type"] in ATTACHMENT_TYPES:
                yield value
            else:
                waiting += reversed(list(value.values()))
        elif isinstance(value, list):
            waiting += reversed(value)


def _decoded(payload: str, part: AttachmentPart) -> Picture | None:
    starts = _FIRST_BYTES.get(part.media_type)
    if not payload or starts is None:
        return None
    try:
        data = base64.b64decode(payload, validate=False)
    except (binascii.Error, ValueError):
        return None
    return Picture(data, part.media_type) if data.startswith(starts) else None
