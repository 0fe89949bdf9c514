"""ChatGPT: `conversations.json` or its shards from the export's archive, its HTML page, files of one conversation.

A conversation is a tree of nodes; the page shows the path from `current_node` up. Each node is a message, named by its
id. Other files of the export contain no conversation and are reported as such.

Source: the exports themselves; there is no published schema.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import JSON_SUFFIXES, Checked, FileReport, Reads, Source, begins_like_json
from convmemory.conversations.importers.json_arrays import json_bytes, read_elements
from convmemory.conversations.importers.threads import Node, named, read_thread
from convmemory.conversations.importers.values import (
    clean,
    key_of,
    list_of,
    mapping_of,
    seconds_of,
    short_hash,
    text_of,
    time_of,
    value_without_payloads,
    without_payloads,
)
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id, with_distinct_id
from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

AGENT = "chatgpt"
PAGE_DATA = "var jsonData ="
CANVASES = "textdocs"  # the folder of documents written with the model
COMPANIONS = frozenset(
    {
        *("user.json", "user_settings.json", "export_manifest.json", "message_feedback.json", "sora.json"),
        *("model_comparisons.json", "shared_conversations.json", "group_chats.json", "shopping.json", "assets.json"),
        "conversation_asset_file_names.json",
    }
)
_MAPPING = re.compile(rb'"mapping"\s*:\s*[{n]')
# An author is in every message; only ChatGPT writes the others with a `mapping`, even an empty one.
_READABLE = re.compile(rb'"(?:author|content_type|current_node|moderation_results|default_model_slug|gizmo_id)"\s*:')

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "system": "system"}
# ChatGPT encloses entities and citations in private-use characters, older citations in lenticular brackets.
_ENTITY = re.compile('\ue200entity\ue202\\["[^"\ue201]{0,100}","([^"\ue201]{0,200})"[^\ue201]{0,500}\ue201')
_MARKS = re.compile(
    "\ue200[^\ue200\ue201]{0,500}\ue201|[\ue200-\ue2ff]|\u3010[^\u3010\u3011\u2020]{0,200}\u2020[^\u3010\u3011]{0,200}\u3011"
)
_KNOWN_WITHOUT_TEXT = frozenset({"model_editable_context", "app_pairing_content", "super_widget"})


@dataclass(frozen=True, slots=True)
class ChatGPTImporter:
    """Reads one JSON document: a list of conversations, or one."""

    name: str = "chatgpt"
    checked: Checked = Checked("ChatGPT's export", "2026-11")
    reads: Reads = Reads(suffixes=frozenset({*JSON_SUFFIXES, ".html"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if _is_page(source):
            return 80
        if begins_like_json(source.head) and _MAPPING.search(source.head) and _READABLE.search(source.head):
            return 92
        return 30 if _is_companion(source) and source.path.suffix == ".json" and source.head.strip() else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        has_conversation = False
        used: dict[str, str] = {}
        names, after = ("conversations", "items", "chats"), PAGE_DATA if _is_page(source) else ""
        for element in read_elements(source.path, report=report, names=names, after=after):
            value = mapping_of(element.value)
            if source.path.parent.name == CANVASES and (canvas := _canvas(value, element.raw, source)):
                has_conversation = True
                yield canvas
                continue
            if not mapping_of(value.get("mapping")):
                if "mapping" in value or "current_node" in value or "conversation_id" in value:
                    report.skip(f"conversation {element.number}", "the export holds no messages of it")
                    has_conversation = True
                elif source.plain_name == "group_chats.json" and "chats" not in value:
                    report.unknown("group chat")
                elif not _is_companion(source):
                    report.skip(f"element {element.number}", "no conversation of ChatGPT")
                continue
            has_conversation = True
            yield with_distinct_id(_conversation(value, source, report), used)
        if not has_conversation and _is_companion(source):
            report.note("a part of a ChatGPT export that holds no conversation")


def _is_page(source: Source) -> bool:
    """Return whether this is the export's HTML page, whose script contains the conversations."""
    return PAGE_DATA.encode() in source.head and b"<script" in source.head


def _is_companion(source: Source) -> bool:
    """Return whether the file, by its name, accompanies the conversations of an export."""
    return source.plain_name in COMPANIONS or source.path.parent.name == CANVASES


def _canvas(value: Mapping[str, Any], raw: bytes, source: Source) -> ConversationDraft | None:
    """Return a document written with the model, which names no conversation; None if it has no text."""
    text = text_of(value.get("content")) or text_of(value.get("text"))
    if not text.strip():
        return None
    name = text_of(value.get("title")) or text_of(value.get("name")) or source.path.stem
    # The export names the file after the document.
    own_id = text_of(value.get("id")) or (source.path.stem if is_global_id(source.path.stem) else "")
    part = AttachmentPart(name=name[:300], text=without_payloads(text))
    message = MessageDraft("system", (part,), source_key="canvas", injected=True, raw=raw)
    return ConversationDraft(
        messages=[message],
        source="chatgpt",
        source_id=key_of(f"canvas:{own_id or short_hash(name + text)}", max_chars=290),
        former_ids=() if own_id else (key_of(f"canvas:{source.path.stem}", max_chars=290),),
        has_weak_id=not is_global_id(own_id),
        title=f"Canvas: {name}",
        agent=AGENT,
        created_at=time_of(value.get("created_at")) or time_of(value.get("create_time")),
    )


def _conversation(value: Mapping[str, Any], source: Source, report: FileReport) -> ConversationDraft:
    mapping = mapping_of(value["mapping"])
    model = text_of(value.get("default_model_slug"))
    own_id = text_of(value.get("conversation_id")) or text_of(value.get("id"))
    nodes: list[Node[Mapping[str, Any]]] = [
        Node(str(key), text_of(node.get("parent")), {**node, "id": key})
        for key, node in mapping.items()
        if isinstance(node, Mapping)
    ]
    current = text_of(value.get("current_node"))
    # Then the last node ends the current branch, so that the newest has to be last.
    if not current:
        nodes.sort(key=lambda node: seconds_of(mapping_of(node.value.get("message")).get("create_time")))

    def read(node: Mapping[str, Any]) -> Iterator[MessageDraft]:
        return node_drafts(node, model=model, unknown=report.unknown)

    draft = ConversationDraft(
        messages=read_thread(nodes, read=read, report=report, current=current, position=own_id or "a conversation"),
        source="chatgpt",
        title=text_of(value.get("title")),
        agent=AGENT,
        created_at=time_of(value.get("create_time")),
        archived=value.get("is_archived") is True,
    )
    # The id that earlier versions gave to a conversation without one.
    beginning = json.dumps([value.get("create_time"), value.get("title"), next(iter(mapping), "")], default=str)
    return named(draft, own_id, former=f"{source.path.stem}:{short_hash(beginning)}")


def node_drafts(node: Mapping[str, Any], *, model: str, unknown: Callable[[str], None]) -> Iterator[MessageDraft]:
    """Yield the node's message, by its content type and its recipient; none without content.

    `model` is the conversation's.
    """
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
        for file in filter(None, map(mapping_of, list_of(metadata.get("attachments")))):
            media_type = text_of(file.get("mime_type")) or file.get("mimeType")
            parts.append(named_file(file.get("name"), media_type, size=file.get("size")))
    if not parts:
        return
    yield MessageDraft(
        role="system" if hidden and role == "user" else role,
        parts=tuple(parts),
        created_at=time_of(message.get("create_time")),
        model=(text_of(metadata.get("model_slug")) or model) if role == "assistant" else "",
        source_key=key_of(text_of(node.get("id")) or text_of(message.get("id"))),
        injected=hidden and role == "user",
        raw=json_bytes(node),
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
    # All text of a content, in order, and the files that it refers to.
    texts: list[str] = []
    files: list[Part] = []
    listed = content.get("parts")
    for part in list_of(listed):
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            # Spoken words, or a picture or sound stored outside of the text.
            part_kind = text_of(part.get("content_type"))
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif part_kind.endswith("asset_pointer"):
                audio = mapping_of(part.get("audio_asset_pointer")) or part
                size = audio.get("size_bytes")
                # For a generated image, its prompt.
                metadata = mapping_of(part.get("metadata"))
                files.append(
                    AttachmentPart(
                        name=text_of(audio.get("asset_pointer"))[:300] or part_kind,
                        media_type="image" if part_kind.startswith("image") else "audio",
                        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0,
                        text=text_of(mapping_of(metadata.get("dalle")).get("prompt")),
                    )
                )
            else:
                unknown(part_kind or "(part without a type)")
    keys = ("title", "url", "text", "result", "content", "user_profile", "user_instructions", "snippet", "name")
    field_texts = [content[key] for key in keys if isinstance(content.get(key), str)]
    texts.extend(field_texts)
    if not isinstance(listed, list) and not field_texts and kind not in _KNOWN_WITHOUT_TEXT:
        unknown(kind)
    text = "\n\n".join(_shown(text) for text in texts if text.strip())
    if role == "tool":
        is_error = kind == "system_error"
        return [ToolResultPart(call_id="", text=text, name=name, is_error=is_error), *files] if text or files else []
    if role == "assistant" and recipient not in ("", "all"):
        call = ToolCallPart(id=key_of(text_of(node.get("id"))), name=recipient, input=_arguments(text))
        return [call, *files] if text or files else []
    if kind == "code" and text:
        text = f"```{text_of(content.get('language')).replace('unknown', '')}\n{text}\n```"
    return [*([TextPart(text)] if text.strip() else []), *files]


def _thoughts(thoughts: object) -> list[Part]:
    listed = list(map(mapping_of, list_of(thoughts)))
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
