"""ChatGPT: `conversations.json` or its shards from the export's archive, and files of one conversation.

A conversation is a tree of nodes; the page shows the path from `current_node` up. Each node is a message, named by its
id. Other files of the export contain no conversation and are reported as such.

Source: the exports themselves; there is no published schema.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.chatgpt_content import node_drafts
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.payloads import without_payloads
from convmemory.conversations.importers.threads import Node, read_thread
from convmemory.conversations.importers.values import key_of, mapping_of, short_hash, text_of, time_of
from convmemory.conversations.parts import AttachmentPart

AGENT = "chatgpt"
CANVASES = "textdocs"  # the folder of documents written with the model
COMPANIONS = frozenset(
    {
        *("user.json", "user_settings.json", "export_manifest.json", "message_feedback.json", "sora.json"),
        *("model_comparisons.json", "shared_conversations.json", "group_chats.json", "shopping.json", "assets.json"),
        "conversation_asset_file_names.json",
    }
)
_MAPPING = re.compile(rb'"mapping"\s*:\s*[{n]')
_BESIDE = re.compile(rb'"(?:current_node|create_time|author|parent|moderation_results|conversation_id)"\s*:')


@dataclass(frozen=True, slots=True)
class ChatGPTImporter:
    """Reads one JSON document: a list of conversations, or one."""

    name: str = "chatgpt"
    checked: Checked = Checked("ChatGPT's export", "2026-11")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            return None
        if _MAPPING.search(source.head) and _BESIDE.search(source.head):
            return 92
        is_companion = source.path.name.lower() in COMPANIONS or source.path.parent.name == CANVASES
        return 30 if is_companion and source.path.suffix == ".json" and source.head.strip() else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        found = False
        for element in read_elements(source.path, report=report, names=("conversations", "items", "chats")):
            value = mapping_of(element.value)
            if source.path.parent.name == CANVASES and (canvas := _canvas(value, element.raw, source)):
                found = True
                yield canvas
                continue
            if not mapping_of(value.get("mapping")):
                if "mapping" in value or "current_node" in value or "conversation_id" in value:
                    report.skip(f"conversation {element.number}", "the export holds no messages of it")
                    found = True
                elif source.path.name.lower() == "group_chats.json" and "chats" not in value:
                    report.unknown("group chat")
                continue
            found = True
            yield _conversation(value, source, report)
        if not found:
            report.note("a part of a ChatGPT export that holds no conversation")


def _canvas(value: Mapping[str, Any], raw: bytes, source: Source) -> ConversationDraft | None:
    """Return a document written with the model, which names no conversation; None if it has no text."""
    text = text_of(value.get("content")) or text_of(value.get("text"))
    if not text.strip():
        return None
    name = text_of(value.get("title")) or text_of(value.get("name")) or source.path.stem
    part = AttachmentPart(name=name[:300], text=without_payloads(text))
    message = MessageDraft("system", (part,), source_key="canvas", injected=True, raw=raw)
    return ConversationDraft(
        messages=[message],
        source="chatgpt",
        source_id=key_of(f"canvas:{text_of(value.get('id')) or source.path.stem}", max_chars=290),
        title=f"Canvas: {name}",
        agent=AGENT,
        created_at=time_of(value.get("created_at")) or time_of(value.get("create_time")),
    )


def _conversation(value: Mapping[str, Any], source: Source, report: FileReport) -> ConversationDraft:
    mapping = mapping_of(value["mapping"])
    model = text_of(value.get("default_model_slug"))
    source_id = _source_id(value, mapping, source)
    nodes: list[Node[Mapping[str, Any]]] = [
        Node(str(key), text_of(node.get("parent")), {**node, "id": key})
        for key, node in mapping.items()
        if isinstance(node, Mapping)
    ]
    current = text_of(value.get("current_node"))
    # Then the last node ends the current branch, so that the newest has to be last.
    if not current:
        nodes.sort(key=_written_at)

    def read(node: Mapping[str, Any]) -> Iterator[MessageDraft]:
        return node_drafts(node, model=model, unknown=report.unknown)

    return ConversationDraft(
        messages=read_thread(nodes, read=read, report=report, current=current, place=source_id),
        source="chatgpt",
        source_id=source_id,
        title=text_of(value.get("title")),
        agent=AGENT,
        created_at=time_of(value.get("create_time")),
        archived=value.get("is_archived") is True,
    )


def _written_at(node: Node[Mapping[str, Any]]) -> float:
    written = time_of(mapping_of(node.value.get("message")).get("create_time"))
    return written.timestamp() if written else 0.0


def _source_id(value: Mapping[str, Any], mapping: Mapping[str, Any], source: Source) -> str:
    given = text_of(value.get("conversation_id")) or text_of(value.get("id"))
    if given:
        return key_of(given, max_chars=290)
    opening = json.dumps([value.get("create_time"), value.get("title"), next(iter(mapping), "")], default=str)
    return key_of(f"{source.path.stem}:{short_hash(opening)}", max_chars=290)
