"""Sessions of the coding agent pi, and of OpenClaw, which is based on it.

pi writes `~/.pi/agent/sessions/--path--/<time>_<id>.jsonl`, OpenClaw `~/.openclaw/agents/<agent>/sessions/<id>.jsonl`,
which it renames when a session is reset or deleted, and since autumn 2026 the same records into a database. Version 3
is a tree: the branch that ends in the last entry is the current one. Version 1 has neither ids nor branches.

Source: badlogic/pi-mono `packages/coding-agent/src/core/session-manager.ts`; openclaw/openclaw.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from convmemory.conversations.importers.base import JSON_SUFFIXES, Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import column_json, dumped
from convmemory.conversations.importers.lines import JsonObject, read_objects, read_objects_at
from convmemory.conversations.importers.sqlite import Database, decompressed
from convmemory.conversations.importers.threads import Node, Placed, named, order_thread
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role, spoken_text
from convmemory.core.errors import InvalidInput

_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "toolResult": "tool",
    "bashExecution": "tool",
    "custom": "system",
    "branchSummary": "system",
    "compactionSummary": "system",
}
MIRROR = "delivery-mirror"  # repeats an answer as it was sent to a messenger
MAX_SESSION_BYTES = 256 * 1024**2  # of one session in a database
_EVENTS = "transcript_events"
_OPENCLAW = (".openclaw", ".clawdbot", ".moltbot")
_SYSTEM = frozenset({"compaction", "branch_summary", "custom_message"})
_SILENT = frozenset({"session", "model_change", "thinking_level_change", "label", "session_info", "custom"})
_Address = tuple[int, int, int]
_ReadAt = Callable[[Iterable[_Address]], Iterator[JsonObject]]


@dataclass(frozen=True, slots=True)
class PiImporter:
    """Reads one session."""

    name: str = "pi"
    checked: Checked = Checked("pi's session format", "3")
    reads: Reads = Reads(suffixes=frozenset({*JSON_SUFFIXES, ".sqlite", ".db"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_sqlite:
            return 95 if source.tables.get(_EVENTS, frozenset()) >= {"session_id", "seq", "event_json"} else None
        for item in source.head_objects:
            if item.value.get("type") == "session" and "cwd" in item.value and "timestamp" in item.value:
                return 95
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        if source.is_sqlite:
            with source.database.opened() as database:
                for session_id, count in _sessions(database, report).items():
                    # Read at once: the current branch is known at its end.
                    events = list(_events(database, session_id, report))
                    if len(events) < count:
                        report.note(f"{session_id}: {count - len(events)} of {count} events could not be read")
                    yield from self._session(source, report, events, partial(_at_addresses, events), session_id)
            return
        end = source.path.stat().st_size
        records = read_objects(source.path, on_issue=report.line_issue)
        yield from self._session(source, report, records, partial(read_objects_at, source.path, until=end), "")

    def _session(
        self, source: Source, report: FileReport, records: Iterable[JsonObject], at: _ReadAt, session_id: str
    ) -> Iterator[ConversationDraft]:
        """Yield a session's conversation; `at` reads its records again, at their addresses."""
        # A first pass: the header, and the positions of the entries.
        header: Mapping[str, Any] = {}
        nodes: list[Node[_Address]] = []
        title = last = ""
        for item in records:
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
        is_openclaw = source.is_sqlite or any(name in text_of(header.get("cwd")) for name in _OPENCLAW)
        draft = ConversationDraft(
            messages=_messages(at, order_thread(nodes, report=report), report),
            source=self.name,
            title=title,
            agent="openclaw" if is_openclaw else self.name,
            project=text_of(header.get("cwd")),
            created_at=time_of(header.get("timestamp")),
            parent_source_id=key_of(PurePosixPath(path.replace("\\", "/")).stem.partition("_")[2], max_chars=290),
        )
        yield named(draft, text_of(header.get("id")) or session_id, former=source.path.stem)


def _sessions(database: Database, report: FileReport) -> dict[str, int]:
    """Return the ids of a database's sessions, oldest first, with their numbers of events."""
    counts: dict[str, int] = {}
    for row in database.rows("rows", columns="session_id", table=_EVENTS, order="session_id"):
        counts[text_of(row["session_id"])] = counts.get(text_of(row["session_id"]), 0) + 1
    if database.has("session_windows", "session_id", "created_at"):
        listed = database.rows("rows", columns="session_id", table="session_windows", order="created_at")
        listed_ids = [text_of(row["session_id"]) for row in listed]
        if gone := sum(name not in counts for name in listed_ids):
            report.note(f"{gone} sessions have no events in it: OpenClaw keeps those in archives of their own")
        return {name: counts[name] for name in (*listed_ids, *counts) if name in counts}
    return counts


def _events(database: Database, session_id: str, report: FileReport) -> Iterator[JsonObject]:
    columns = f"seq, event_json, {database.columns(_EVENTS, ['event_zstd'])}"
    read = 0
    for row in database.rows("rows_of", [session_id], columns=columns, table=_EVENTS, by="session_id", order="seq"):
        position, data = f"{session_id}, event {row['seq']}", row["event_json"]
        try:
            if isinstance(row["event_zstd"], bytes):
                data = decompressed(row["event_zstd"]).decode("utf-8", "replace")
            value = column_json(data)
            if not isinstance(value, dict):
                raise InvalidInput("no JSON object, or one of too many values")
        except InvalidInput as error:
            report.skip(position, str(error))
            continue
        raw = dumped(value)
        read += len(raw)
        if read > MAX_SESSION_BYTES:
            report.skip(position, f"what follows the first {MAX_SESSION_BYTES // 1024**2} MB of a session is not read")
            return
        yield JsonObject(number=row["seq"] if type(row["seq"]) is int else 0, index=0, offset=0, value=value, raw=raw)


def _at_addresses(events: list[JsonObject], addresses: Iterable[_Address]) -> Iterator[JsonObject]:
    by_number = {event.number: event for event in events}
    return (by_number[number] for _, number, _ in addresses)


def _key(item: JsonObject) -> str:
    return key_of(text_of(item.value.get("id")) or f"line:{item.number}.{item.index}")


def _messages(at: _ReadAt, order: list[Placed[_Address]], report: FileReport) -> Iterator[MessageDraft]:
    superseded = {entry.value[1:]: entry.superseded for entry in order}
    answer = ""
    for item in at([entry.value for entry in order]):
        for draft in _entry(item, report):
            if draft.role == "assistant" and (text := spoken_text(draft.parts)):
                if draft.model == MIRROR and text == answer:
                    continue
                answer = text
            yield replace(draft, superseded=superseded.get(item.position, False))


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
        output = f"$ {text_of(message.get('command'))}\n{text_of(message.get('output'))}"
        yield Block.result(id="", name="bash", content=output, is_error=failed)
        return
    content = message.get("content") or message.get("summary")
    for item in content if isinstance(content, list) else [content]:
        block: Mapping[str, Any] = {"type": "text", "text": item} if isinstance(item, str) else mapping_of(item)
        kind = text_of(block.get("type"))
        if kind == "text":
            yield Block.text(block.get("text"))
        elif kind == "thinking":
            yield Block.thinking(text_of(block.get("thinking")))
        elif kind == "toolCall":
            yield Block.call(id=block.get("id"), name=block.get("name"), input=block.get("arguments"))
        elif kind == "image":
            yield Block.attachment("image", block.get("mimeType"))
        elif block:
            report.unknown(kind or "(no type)")
    yield Block.text(text_of(message.get("errorMessage")))
