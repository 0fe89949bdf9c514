"""Images, documents, files and audio in messages: a description of each, never its bytes."""

from collections.abc import Mapping
from typing import Any

from convmemory.conversations.importers.values import base64_size, list_of, mapping_of, text_of, without_payloads
from convmemory.conversations.messages.parts import AttachmentPart

ATTACHMENT_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "document", "file", "input_file", "container_upload"),
        *("input_audio", "audio", "output_audio", "video", "video_url"),
    }
)
MAX_NAME_CHARS = 300


def attachment_of(block: Mapping[str, Any], kind: str) -> AttachmentPart:
    """Return the attachment that a block of this type describes."""
    # The object with the payload, the address or the id.
    for key in ("source", kind, "input_audio", "image_url", "file", "audio"):
        value = block.get(key)
        if isinstance(value, Mapping):
            source = value
            break
        if isinstance(value, str):
            source = {"url": value}
            break
    else:
        source = block
    payload = ""
    for key in ("data", "file_data", "url", "image_url"):
        value = source.get(key)
        if isinstance(value, str) and (key in ("data", "file_data") or value.startswith("data:")):
            payload = value
            break
    for key in ("media_type", "mime_type", "mimeType"):
        if text_of(source.get(key)):
            media_type = text_of(source[key])[:100]
            break
    else:
        if payload.startswith("data:"):
            media_type = text_of(payload[5:105].partition(";")[0].partition(",")[0])
        else:
            media_type = text_of(source.get("format"))[:100]
    if payload and source.get("type") == "text":
        return AttachmentPart(
            name=_name(block, source, kind), media_type=media_type, text=text_of(without_payloads(payload))
        )
    encoded = payload.partition("base64,")[2] if payload.startswith("data:") else payload
    # The text of a document whose content is a list of blocks.
    content = source.get("content")
    if isinstance(content, str):
        text = text_of(without_payloads(content))
    else:
        blocks = list_of(content)
        text = "\n".join(text for text in (text_of(mapping_of(block).get("text")) for block in blocks) if text)
    return AttachmentPart(
        name=_name(block, source, kind),
        media_type=media_type,
        size_bytes=base64_size(encoded) if encoded else 0,
        text=text,
    )


def named_file(name: object, media_type: object = "", *, size: object = 0, text: object = "") -> AttachmentPart:
    """Return the attachment for a file that a message names; values of other types are left out."""
    return AttachmentPart(
        name=text_of(name)[:MAX_NAME_CHARS] or "file",
        media_type=text_of(media_type)[:100],
        size_bytes=size if type(size) is int and size > 0 else 0,
        text=without_payloads(text_of(text)),
    )


def _name(block: Mapping[str, Any], source: Mapping[str, Any], kind: str) -> str:
    keys = ("filename", "file_name", "title", "name", "url", "file_id", "id")
    for value in (text_of(record.get(key)) for key in keys for record in (block, source)):
        if value and not value.startswith("data:"):
            return value[:MAX_NAME_CHARS]
    return kind.removeprefix("input_").removeprefix("output_").removesuffix("_url")
