"""Open WebUI: the export of all chats, or of one, or the database `webui.db`.

A chat contains a tree of messages and names the current one. An assistant's output is in `output`, in the format of
OpenAI's Responses API; older versions write it into the content as `<details>` elements.

Source: open-webui/open-webui, `backend/open_webui/models/chats.py`, `backend/open_webui/utils/middleware.py`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import JSON_SUFFIXES, Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import ROLES_BY_NAME, Block, content_parts
from convmemory.conversations.importers.json_arrays import column_json, json_bytes, read_elements
from convmemory.conversations.importers.threads import Node, named, read_thread
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, short_hash, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import with_distinct_id
from convmemory.conversations.messages.parts import Part

_COLUMNS = frozenset({"id", "user_id", "title", "chat", "created_at", "archived"})  # of the table `chat`
_MARKS = re.compile(rb'"(?:childrenIds|currentId|parentId)"\s*:')
_OPENED, _CLOSED = "<details", "</details>"
_TYPE = re.compile(r'<details\s{1,9}type="([a-z_]{1,40})"[^<>]*+>')
_SUMMARY = re.compile(r"<summary>[^<>]{0,500}</summary>")

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OpenWebUIImporter:
    """Reads one JSON document, or the database of a server."""

    name: str = "open-webui"
    checked: Checked = Checked("Open WebUI", "0.6")
    reads: Reads = Reads(suffixes=JSON_SUFFIXES | {".db"})

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_sqlite:
            return 90 if source.tables.get("chat", frozenset()) >= _COLUMNS else None
        if b'"history"' not in source.head:
            return None
        return 90 if _MARKS.search(source.head) and b'"messages"' in source.head else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        used: dict[str, str] = {}
        elements = read_elements(source.path, report=report, names=("chats", "data"))
        exported = ((element.number, mapping_of(element.value)) for element in elements)
        for number, value in _stored(source, report) if source.is_sqlite else exported:
            chat = mapping_of(value.get("chat")) or value
            history = mapping_of(chat.get("history"))
            nodes = list(_nodes(history.get("messages"), chat.get("messages")))
            if not nodes:
                report.skip(f"chat {number}", "it holds no messages")
                continue
            own_id = text_of(value.get("id")) or text_of(chat.get("id"))
            read = partial(_message, report=report)
            draft = ConversationDraft(
                messages=read_thread(
                    nodes,
                    read=read,
                    report=report,
                    current=text_of(history.get("currentId")),
                    position=own_id or "a chat",
                ),
                source="open-webui",
                title=text_of(value.get("title")) or text_of(chat.get("title")),
                agent="open-webui",
                created_at=time_of(value.get("created_at")) or time_of(chat.get("timestamp")),
                archived=value.get("archived") is True,
            )
            draft = named(draft, own_id, former=f"{source.path.stem}:{short_hash(nodes[0].id)}")
            yield with_distinct_id(draft, used)


def _stored(source: Source, report: FileReport) -> Iterator[tuple[int, Message]]:
    """Yield the chats of the server's own database, `webui.db`."""
    users = set()
    with source.database.opened() as database:
        columns = database.columns("chat", sorted(_COLUMNS))
        for number, row in enumerate(database.rows("rows", columns=columns, table="chat", order="id"), 1):
            users.add(row["user_id"])
            yield number, {**row, "chat": column_json(row["chat"]), "archived": row["archived"] == 1}
    if len(users) > 1:
        report.note(f"the database holds chats of {len(users)} users: all of them were read")


def _nodes(tree: object, listed: object) -> Iterator[Node[Message]]:
    """Yield the messages of the tree; without one, those of the list, each after the one before it."""
    if mapping_of(tree):
        for key, item in mapping_of(tree).items():
            if isinstance(item, Mapping):
                yield Node(key, text_of(item.get("parentId")), {**item, "id": key})
        return
    previous = ""
    for number, item in enumerate(list_of(listed), 1):
        if isinstance(item, Mapping):
            name = text_of(item.get("id")) or f"message:{number}"
            yield Node(name, previous, {**item, "id": name})
            previous = name


def _message(value: Message, report: FileReport) -> Iterator[MessageDraft]:
    role = ROLES_BY_NAME.get(text_of(value.get("role")).lower())
    if role is None:
        report.unknown(f"role {text_of(value.get('role'))}")
        return
    # The parts of items of the Responses API: text, thinking, calls and results.
    output = value.get("output")
    parts: list[Part] = []
    for item in map(mapping_of, list_of(output)):
        content = item.get("content") if item.get("type") == "message" else [item]
        parts.extend(content_parts(content, unknown=report.unknown))
    if not parts:
        text = value.get("content")
        if isinstance(text, str) and _OPENED in text:
            parts = _without_details(text)
        else:
            parts = content_parts(text, unknown=report.unknown)
    for file in map(mapping_of, list_of(value.get("files"))):
        inner = mapping_of(file.get("file"))
        name = text_of(file.get("name")) or text_of(inner.get("filename")) or file.get("type")
        kind, data = mapping_of(inner.get("meta")).get("content_type"), mapping_of(inner.get("data"))
        parts.append(named_file(name, kind, text=data.get("content")))
    if parts:
        yield MessageDraft(
            role=role,
            parts=tuple(parts),
            created_at=time_of(value.get("timestamp")),
            model=text_of(value.get("model")) if role == "assistant" else "",
            source_key=key_of(text_of(value.get("id"))),
            raw=json_bytes(value),
        )


def _without_details(text: str) -> list[Part]:
    """Return thinking and spoken text of a content with `<details>` elements; calls of tools are left out."""
    spoken: list[str] = []
    thought: list[str] = []
    at = 0
    while (start := text.find(_OPENED, at)) >= 0:
        end = text.find(_CLOSED, start)
        match = _TYPE.match(text, start)
        if end < 0 or not match:
            break
        spoken.append(text[at:start])
        if match[1] == "reasoning":
            thought.append(_SUMMARY.sub("", text[match.end() : end], count=1))
        at = end + len(_CLOSED)
    spoken.append(text[at:])
    return content_parts([*(Block.thinking(item.strip()) for item in thought), "".join(spoken).strip()])
