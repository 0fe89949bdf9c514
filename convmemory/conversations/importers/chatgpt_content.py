"""The message of one node of a ChatGPT conversation, by its content type and its recipient."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.importers.payloads import value_without_payloads, without_payloads
from convmemory.conversations.importers.values import clean, key_of, mapping_of, text_of, time_of
from convmemory.conversations.parts import (
    AttachmentPart,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}
# ChatGPT encloses entities and citations in private-use characters, older citations in lenticular brackets.
_ENTITY = re.compile('\ue200entity\ue202\\["[^"\ue201]{0,100}","([^"\ue201]{0,200})"[^\ue201]{0,500}\ue201')
_MARKS = re.compile(
    "\ue200[^\ue200\ue201]{0,500}\ue201|[\ue200-\ue2ff]|\u3010[^\u3010\u3011\u2020]{0,200}\u2020[^\u3010\u3011]{0,200}\u3011"
)
_KNOWN_WITHOUT_TEXT = frozenset({"model_editable_context", "app_pairing_content", "super_widget"})


def node_drafts(node: Mapping[str, Any], *, model: str, unknown: Callable[[str], None]) -> Iterator[MessageDraft]:
    """Yield the node's message; none if it has no content. `model` is the conversation's."""
    message = mapping_of(node.get("message"))
    author, metadata = mapping_of(message.get("author")), mapping_of(message.get("metadata"))
    role = _ROLES.get(text_of(author.get("role")))
    if role is None:
        if message:
            unknown(f"role {text_of(author.get('role'))}")
        return
    content = mapping_of(message.get("content"))
    marks = ("is_visually_hidden_from_conversation", "is_user_system_message")
    hidden = content.get("content_type") == "user_editable_context" or any(metadata.get(mark) is True for mark in marks)
    parts = _parts(content, role, text_of(author.get("name")), text_of(message.get("recipient")), node, unknown)
    if role == "user":
        parts.extend(_attachments(metadata))
    if not parts:
        return
    yield MessageDraft(
        role="system" if hidden and role == "user" else role,
        parts=tuple(parts),
        created_at=time_of(message.get("create_time")),
        model=(text_of(metadata.get("model_slug")) or model) if role == "assistant" else "",
        source_key=key_of(text_of(node.get("id")) or text_of(message.get("id"))),
        injected=hidden and role == "user",
        raw=json.dumps(node, ensure_ascii=False).encode("utf-8", "replace"),
    )


def _parts(
    content: Mapping[str, Any],
    role: Role,
    name: str,
    recipient: str,
    node: Mapping[str, Any],
    unknown: Callable[[str], None],
) -> list[Part]:
    kind = text_of(content.get("content_type")) or "text"
    if kind == "thoughts":
        return _thoughts(content.get("thoughts"))
    if kind == "reasoning_recap":
        return _thinking(text_of(content.get("content")))
    text, files = _text_and_files(content, kind, unknown)
    if role == "tool":
        is_error = kind == "system_error"
        return [ToolResultPart(call_id="", text=text, name=name, is_error=is_error), *files] if text or files else []
    if role == "assistant" and recipient not in ("", "all"):
        call = ToolCallPart(id=key_of(text_of(node.get("id"))), name=recipient, input=_arguments(text))
        return [call, *files] if text or files else []
    if kind == "code" and text:
        text = f"```{text_of(content.get('language')).replace('unknown', '')}\n{text}\n```"
    return [*([TextPart(text)] if text.strip() else []), *files]


def _text_and_files(content: Mapping[str, Any], kind: str, unknown: Callable[[str], None]) -> tuple[str, list[Part]]:
    """Return all text of a content, in order, and the files that it refers to."""
    texts: list[str] = []
    files: list[Part] = []
    listed = content.get("parts")
    for part in listed if isinstance(listed, list) else []:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            _pointed_at(part, texts, files, unknown)
    keys = ("title", "url", "text", "result", "content", "user_profile", "user_instructions", "snippet", "name")
    own = [content[key] for key in keys if isinstance(content.get(key), str)]
    texts.extend(own)
    if not isinstance(listed, list) and not own and kind not in _KNOWN_WITHOUT_TEXT:
        unknown(kind)
    return "\n\n".join(_shown(text) for text in texts if text.strip()), files


def _pointed_at(part: Mapping[str, Any], texts: list[str], files: list[Part], unknown: Callable[[str], None]) -> None:
    """Add the text or file of one part that is no string: spoken words, or a picture or sound stored outside of the
    text.
    """
    kind = text_of(part.get("content_type"))
    if isinstance(part.get("text"), str):
        texts.append(part["text"])
    elif kind.endswith("asset_pointer"):
        audio = mapping_of(part.get("audio_asset_pointer")) or part
        size = audio.get("size_bytes")
        # For a generated image, its prompt.
        metadata = mapping_of(part.get("metadata"))
        files.append(
            AttachmentPart(
                name=text_of(audio.get("asset_pointer"))[:300] or kind,
                media_type="image" if kind.startswith("image") else "audio",
                size_bytes=size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0,
                text=text_of(mapping_of(metadata.get("dalle")).get("prompt")),
            )
        )
    else:
        unknown(kind or "(part without a type)")


def _attachments(metadata: Mapping[str, Any]) -> list[Part]:
    listed = metadata.get("attachments")
    files = [mapping_of(item) for item in listed] if isinstance(listed, list) else []
    return [
        AttachmentPart(
            name=text_of(file.get("name"))[:300] or "file",
            media_type=(text_of(file.get("mime_type")) or text_of(file.get("mimeType")))[:100],
            size_bytes=file["size"] if type(file.get("size")) is int and file["size"] > 0 else 0,
        )
        for file in files
        if file
    ]


def _thoughts(thoughts: object) -> list[Part]:
    listed = [mapping_of(item) for item in thoughts] if isinstance(thoughts, list) else []
    texts = ("\n\n".join(filter(None, (text_of(item.get("summary")), text_of(item.get("content"))))) for item in listed)
    return [part for text in texts for part in _thinking(text)]


def _thinking(text: str) -> list[Part]:
    return [ThinkingPart(_shown(text))] if text.strip() else []


def _arguments(text: str) -> Mapping[str, Any]:
    """Return a tool's arguments: JSON if it is an object, else the text."""
    if text.startswith("{") and len(text) < 100_000:
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return mapping_of(value_without_payloads(value))
    return {"input": text}


def _shown(text: str) -> str:
    """Return the text as the page shows it: without citation marks, and with the readable names of entities."""
    if "\ue200" in text or "\u3010" in text:
        text = _MARKS.sub("", _ENTITY.sub(r"\1", text))
    return clean(without_payloads(text))
