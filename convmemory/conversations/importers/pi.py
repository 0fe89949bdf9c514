"""Sessions of the coding agent pi: `~/.pi/agent/sessions/--path--/<time>_<id>.jsonl`.

Version 3 is a tree: the branch that ends in the last entry is the current one. Version 1 has neither ids nor branches.

Source: badlogic/pi-mono `packages/coding-agent/src/core/session-manager.ts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.lines import JsonObject, read_objects, read_objects_at
from convmemory.conversations.importers.threads import Node, Placed, named, order_thread
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool",
    "bashExecution": "tool",
    "custom": "system",
    "branchSummary": "system",
    "compactionSummary": "system",
}
_SYSTEM = frozenset({"compaction", "branch_summary", "custom_message"})
_SILENT = frozenset({"session", "model_change", "thinking_level_change", "label", "session_info", "custom"})
_Place = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PiImporter:
    """Reads one session."""

    name: str = "pi"
    checked: Checked = Checked("pi's session format", "3")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        for item in source.head_objects:
            if item.value.get("type") == "session" and "cwd" in item.value and "timestamp" in item.value:
                return 95
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        # A first pass: the header, and the positions of the entries.
        header: Mapping[str, Any] = {}
        nodes: list[Node[_Place]] = []
        title = last = ""
        for item in read_objects(source.path, on_issue=report.line_issue):
            kind = text_of(item.value.get("type"))
            if kind == "session":
                header = header or item.value
                continue
            if kind == "session_info":
                title = text_of(item.value.get("name")) or title
            elif kind != "message" and kind not in _SYSTEM | _SILENT:
                report.unknown(kind or "(no type)")
            key = _key(item)
            parent = text_of(item.value.get("parentId")) if "parentId" in item.value else last
            nodes.append(Node(key, parent, (item.offset, item.number, item.index)))
            last = key
        report.written_by(str(header.get("version", "")), self.checked)
        if not nodes:
            report.note("a session without any message")
            return
        # A fork names the file of the session that it was forked from: `<time>_<id>.jsonl`.
        path = text_of(header.get("parentSession")) or text_of(header.get("branchedFrom"))
        draft = ConversationDraft(
            messages=_messages(source, order_thread(nodes, report=report), report),
            source=self.name,
            title=title,
            agent=self.name,
            project=text_of(header.get("cwd")),
            created_at=time_of(header.get("timestamp")),
            parent_source_id=key_of(PurePosixPath(path.replace("\\", "/")).stem.partition("_")[2], max_chars=290),
        )
        yield named(draft, text_of(header.get("id")), former=source.path.stem)


def _key(item: JsonObject) -> str:
    return key_of(text_of(item.value.get("id")) or f"line:{item.number}.{item.index}")


def _messages(source: Source, order: list[Placed[_Place]], report: FileReport) -> Iterator[MessageDraft]:
    items = read_objects_at(source.path, [entry.value for entry in order], until=source.path.stat().st_size)
    superseded = {entry.value[1:]: entry.superseded for entry in order}
    for item in items:
        for draft in _entry(item, report):
            yield replace(draft, superseded=superseded.get(item.place, False))


def _entry(item: JsonObject, report: FileReport) -> Iterator[MessageDraft]:
    kind = text_of(item.value.get("type"))
    message = mapping_of(item.value.get("message")) if kind == "message" else item.value
    role = _ROLES.get(text_of(message.get("role"))) if kind == "message" else "system" if kind in _SYSTEM else None
    if role is None:
        if kind == "message":
            report.unknown(f"role {text_of(message.get('role'))}")
        return
    yield from record_messages(
        role=role,
        blocks=_blocks(message, report),
        key=_key(item),
        unknown=report.unknown,
        created_at=time_of(item.value.get("timestamp")) or time_of(message.get("timestamp")),
        model=text_of(message.get("model")),
        injected=role == "system",
        raw=item.raw,
    )


def _blocks(message: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    role = message.get("role")
    if role == "toolResult":
        yield Block.result(
            id=message.get("toolCallId"), name=message.get("toolName"), content=message.get("content"),
            is_error=message.get("isError") is True,
        )  # fmt: skip
        return
    if role == "bashExecution":
        failed = message.get("exitCode") not in (0, None)
        said = f"$ {text_of(message.get('command'))}\n{text_of(message.get('output'))}"
        yield Block.result(id="", name="bash", content=said, is_error=failed)
        return
    content = message.get("content") or message.get("summary")
    for item in content if isinstance(content, list) else [content]:
        yield from _block({"type": "text", "text": item} if isinstance(item, str) else mapping_of(item), report)
    yield Block.text(text_of(message.get("errorMessage")))


def _block(item: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    kind = text_of(item.get("type"))
    if kind == "text":
        yield Block.text(item.get("text"))
    elif kind == "thinking":
        yield Block.thinking(text_of(item.get("thinking")))
    elif kind == "toolCall":
        yield Block.call(id=item.get("id"), name=item.get("name"), input=item.get("arguments"))
    elif kind == "image":
        yield Block.attachment("image", item.get("mimeType"))
    elif item:
        report.unknown(kind or "(no type)")
