"""Reads the output of `claude -p` and of claude-code-action, and sessions of Claude Code for web.

Messages as in Claude Code's own sessions, as JSON lines or as one array; the session is `session_id`. The prompt is in
it only with an option that repeats it. A session whose own file was imported is fuller and is kept. A session of Claude
Code for web is a document with the lines of such a file under `loglines`, and is the same conversation.

Source: https://docs.claude.com/en/docs/claude-code/sdk (SDKMessage).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.claude_code import MessageReader
from convmemory.conversations.importers.claude_prompts import read_prompt
from convmemory.conversations.importers.claude_scan import session_id_of
from convmemory.conversations.importers.content import content_parts
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.places import beginning_of
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, short_hash, text_of
from convmemory.conversations.messages.drafts import TITLE_CHARS, ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, named_by_opening
from convmemory.conversations.messages.parts import TextPart
from convmemory.core.text import one_line

NO_PROMPT = "(The prompt is not in what `claude -p` printed.)"
MAX_SUBAGENT_BYTES = 64 * 1024**2  # of all subagents of a session, which are read after it
MAX_SESSIONS = 100  # of one file, which is read once for each

_MESSAGES = ("user", "assistant")
_KINDS = frozenset({*_MESSAGES, "system", "result", "stream_event", "tool_progress", "auth_status", "rate_limit_event"})


@dataclass(frozen=True, slots=True)
class ClaudeStreamImporter:
    """Reads the output of one run."""

    name: str = "claude-stream"
    checked: Checked = Checked("Claude Code", "2.1.219")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if b'"loglines"' in source.head:
            lines = list_of(mapping_of(beginning_of(source.head)).get("loglines"))
            return 96 if any("uuid" in mapping_of(line) for line in lines) else None
        if b'"session_id"' not in source.head:
            return None
        beginning = beginning_of(source.head)
        listed = beginning if isinstance(beginning, list) else [item.value for item in source.head_objects[:20]]
        return 96 if any(_is_readable(mapping_of(item)) for item in listed or [beginning]) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        if b'"session_id"' not in source.head and b'"loglines"' in source.head:
            yield from _web_session(source, report)
            return
        sessions = _Sessions()
        for item in _items(source, report):
            sessions.look_at(item.value)
        if not sessions.by_id:
            report.note("an output without any message")
        if len(sessions.by_id) > MAX_SESSIONS:
            report.skip(f"session {MAX_SESSIONS + 1}", f"more than {MAX_SESSIONS} sessions in one file: divide it")
        for session in islice(sessions.by_id.values(), MAX_SESSIONS):
            reader = _Reader(session, report)
            yield ConversationDraft(
                messages=reader.main(_items(source, FileReport(path=""))),
                source=self.name,
                source_id=key_of(session.id, max_chars=MAX_ID_CHARS),
                agent="claude-code",
                project=session.project,
                unless_source="claude-code",
            )
            for name, items in reader.subagents.items():
                yield ConversationDraft(
                    messages=MessageReader(report).read(iter(items)),
                    source=self.name,
                    source_id=key_of(f"{session.id}:{name}", max_chars=MAX_ID_CHARS),
                    agent="claude-code",
                    project=session.project,
                    parent_source_id=key_of(session.id, max_chars=MAX_ID_CHARS),
                    unless_source="claude-code",
                )


def _web_session(source: Source, report: FileReport) -> Iterator[ConversationDraft]:
    project = title = name = ""
    agents = {"": False}  # the main thread first
    for item in _items(source, FileReport(path=""), names=("loglines",)):
        name = name or session_id_of(item.value)
        project = project or text_of(item.value.get("cwd"))
        agent = _agent_of(item.value)
        if agent in agents or len(agents) < MAX_SESSIONS:
            agents[agent] = agents.get(agent, False) or item.value.get("type") in _MESSAGES
        else:
            report.skip(item.number, "the session has more subagents than are read")
        if item.value.get("type") == "user" and not agent:
            title = title or one_line(read_prompt(item.value).typed, TITLE_CHARS)
    for agent in (agent for agent, has_messages in agents.items() if has_messages):
        lines = _items(source, FileReport(path="") if agent else report, names=("loglines",))
        draft = ConversationDraft(
            messages=MessageReader(report).read(line for line in lines if _agent_of(line.value) == agent),
            source="claude-code",
            source_id=key_of(f"{name}:agent-{agent}" if agent else name, max_chars=MAX_ID_CHARS),
            title="" if agent else title,
            agent="claude-code",
            project=project,
            parent_source_id=key_of(name, max_chars=MAX_ID_CHARS) if agent else "",
        )
        yield draft if name else named_by_opening(draft)


def _agent_of(value: Mapping[str, Any]) -> str:
    """Return the id of the subagent that a line belongs to; "" for the main thread."""
    return text_of(value.get("agentId")) or "sidechain" if value.get("isSidechain") is True else ""


@dataclass(slots=True)
class _Session:
    id: str
    project: str = ""
    has_prompt: bool = False
    has_answer: bool = False


@dataclass(slots=True)
class _Sessions:
    """The sessions of a file, in order; usually one."""

    by_id: dict[str, _Session] = field(default_factory=dict)

    def look_at(self, value: Mapping[str, Any]) -> None:
        name = text_of(value.get("session_id"))
        if not name or text_of(value.get("type")) not in _KINDS:
            return
        session = self.by_id.setdefault(name, _Session(name))
        session.project = session.project or text_of(value.get("cwd"))
        content = mapping_of(value.get("message")).get("content")
        blocks = [mapping_of(block).get("type") for block in list_of(content)]
        if value.get("parent_tool_use_id"):
            return
        session.has_prompt |= value.get("type") == "user" and (isinstance(content, str) or "text" in blocks)
        session.has_answer |= value.get("type") == "assistant" and (isinstance(content, str) or "text" in blocks)


@dataclass(slots=True)
class _Reader:
    session: _Session
    report: FileReport
    subagents: dict[str, list[JsonObject]] = field(default_factory=dict)
    _held: int = 0
    _result: MessageDraft | None = None

    def main(self, items: Iterator[JsonObject]) -> Iterator[MessageDraft]:
        """Yield the session's messages; those of subagents are set aside."""
        if not self.session.has_prompt:
            yield MessageDraft("user", (TextPart(NO_PROMPT),), source_key="prompt")
        yield from MessageReader(self.report).read(self._own(items))
        if not self.session.has_answer and self._result:
            yield self._result

    def _own(self, items: Iterator[JsonObject]) -> Iterator[JsonObject]:
        for item in items:
            value = item.value
            if text_of(value.get("session_id")) != self.session.id:
                continue
            kind = text_of(value.get("type"))
            if kind == "result" and text_of(value.get("result")).strip():
                parts = tuple(content_parts(text_of(value["result"])))
                self._result = MessageDraft("assistant", parts, source_key="result", raw=item.raw)
            elif kind not in _KINDS:
                self.report.unknown(kind or "(no type)")
            elif kind in _MESSAGES:
                parent = text_of(value.get("parent_tool_use_id"))
                if not parent:
                    yield _named(item)
                elif self._held + len(item.raw) > MAX_SUBAGENT_BYTES:
                    self.report.skip(item.number, "the subagents of this session said too much to be read after it")
                else:
                    self._held += len(item.raw)
                    self.subagents.setdefault(parent, []).append(_named(item))


def _named(item: JsonObject) -> JsonObject:
    """Return the message with a name of its own that does not depend on its position."""
    uuid = text_of(item.value.get("uuid")) or f"said:{short_hash(item.raw.decode('utf-8', 'replace'), 32)}"
    return JsonObject(item.number, item.index, item.offset, {**item.value, "uuid": uuid}, item.raw)


def _items(source: Source, report: FileReport, *, names: tuple[str, ...] = ()) -> Iterator[JsonObject]:
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if names or head.startswith(b"[") or (head.startswith(b"{") and not source.head_objects):
        for element in read_elements(source.path, report=report, names=names):
            if isinstance(element.value, dict):
                yield JsonObject(element.number, 0, 0, element.value, element.raw)
            else:
                report.skip(f"element {element.number}", "not an object")
        return
    yield from read_objects(source.path, on_issue=report.line_issue)


def _is_readable(value: Mapping[str, Any]) -> bool:
    """Return whether the line is one that only `claude -p` writes, and has content."""
    if not text_of(value.get("session_id")) or "sessionId" in value:
        return False
    if value.get("type") == "result":
        return bool(text_of(value.get("result")).strip())
    return value.get("type") in _MESSAGES and bool(mapping_of(value.get("message")).get("content"))
