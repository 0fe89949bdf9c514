"""LibreChat: exports of one conversation, flat or as a tree of children; and the export of Chatbot UI.

A message names its parent; nothing names the current one, so the last branch counts.
Source: danny-avila/LibreChat, `useExportConversation.ts` and `api/server/utils/import`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import AnyBlock, Block, content_parts
from convmemory.conversations.importers.json_arrays import json_bytes, read_elements
from convmemory.conversations.importers.threads import Node, named, read_thread
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, short_hash, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import with_distinct_id

NO_PARENT = "00000000-0000-0000-0000-000000000000"
_MARKS = re.compile(rb'"(?:parentMessageId|messagesTree|isCreatedByUser)"\s*:')
_CHATBOT_UI = re.compile(rb'\A\s*\{\s*"version"\s*:\s*\d{1,3}\s*,\s*"history"\s*:\s*\[')

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LibreChatImporter:
    """Reads one JSON document."""

    name: str = "librechat"
    checked: Checked = Checked("LibreChat", "0.8")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if _MARKS.search(source.head) and b'"conversationId"' in source.head:
            return 90
        return 88 if _CHATBOT_UI.search(source.head) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        used: dict[str, str] = {}
        for element in read_elements(source.path, report=report, names=("history", "conversations")):
            value = mapping_of(element.value)
            listed = next(
                (value[key] for key in ("messagesTree", "messages") if isinstance(value.get(key), list)), None
            )
            if listed is None:
                report.skip(f"conversation {element.number}", "it holds no messages")
                continue
            nodes = list(_nodes(listed))
            options = mapping_of(value.get("options"))
            model = text_of(options.get("model")) or text_of(mapping_of(value.get("model")).get("id"))
            own_id = text_of(value.get("conversationId")) or text_of(value.get("id"))
            read = partial(_message, model=model, report=report)
            times = (time_of(node.value.get("createdAt")) for node in nodes)
            draft = ConversationDraft(
                messages=read_thread(nodes, read=read, report=report, position=own_id or "a conversation"),
                source="librechat",
                title=text_of(value.get("title")) or text_of(value.get("name")),
                agent="librechat",
                created_at=time_of(value.get("createdAt")) or next((time for time in times if time), None),
                archived=value.get("isArchived") is True,
            )
            former = f"{source.path.stem}:{short_hash(nodes[0].id if nodes else '')}"
            draft = named(draft, own_id, former=former)
            yield with_distinct_id(draft, used)


def _nodes(listed: list[Any]) -> Iterator[Node[Message]]:
    """Yield the messages, children after their parent; a message without a named parent follows the one before it."""
    # A stack and no recursion, because the depth of a foreign tree is unbounded.
    waiting: list[tuple[object, str | None]] = [(item, None) for item in reversed(listed)]
    previous, count = "", 0
    while waiting:
        item, above = waiting.pop()
        if not isinstance(item, Mapping):
            continue
        count += 1
        name = text_of(item.get("messageId")) or text_of(item.get("id")) or f"message:{count}"
        parent_id = item.get("parentMessageId")
        parent = above or (text_of(parent_id) if isinstance(parent_id, str) else previous)
        yield Node(name, "" if parent == NO_PARENT else parent, {**item, "messageId": name, "children": None})
        waiting.extend((child, name) for child in reversed(list_of(item.get("children"))))
        previous = name


def _message(value: Message, model: str, report: FileReport) -> Iterator[MessageDraft]:
    by_user = value.get("isCreatedByUser") is True or value.get("role") == "user"
    text = text_of(value.get("text")) or text_of(value.get("content"))
    blocks = _blocks(value.get("content"))
    parts = [part for block in blocks for part in content_parts([block], unknown=report.unknown)]
    parts = parts or content_parts(text)
    for file in map(mapping_of, list_of(value.get("files"))):
        parts.append(named_file(file.get("filename"), file.get("type"), size=file.get("bytes")))
    if parts:
        yield MessageDraft(
            role="user" if by_user else "system" if value.get("role") == "system" else "assistant",
            parts=tuple(parts),
            created_at=time_of(value.get("createdAt")),
            model="" if by_user else text_of(value.get("model")) or model,
            source_key=key_of(text_of(value.get("messageId"))),
            raw=json_bytes(value),
        )


def _blocks(content: object) -> Iterator[AnyBlock]:
    for block in map(mapping_of, list_of(content)):
        kind, call = block.get("type"), block.get("tool_call")
        if kind == "think":
            yield Block.thinking(text_of(block.get("think")))
        elif kind == "tool_call" and isinstance(call, Mapping):
            # A call, followed by its result if it has ended.
            yield Block.call(id=call.get("id"), name=call.get("name"), input=call.get("args"))
            if call.get("output") is not None:
                yield Block.result(id=call.get("id"), name=call.get("name"), content=call["output"])
        else:
            yield Block.text(text_of(block.get("error")) or "(error)") if kind == "error" else block
