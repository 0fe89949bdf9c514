"""Sessions of Claude Code: `~/.claude/projects/<folder>/<session>.jsonl` and their subagents' files.

A session is named by its id, which is also its file's name, a message by its uuid. Subagents, in files of their own or
inline as sidechains, become conversations linked to the session.

Source: the transcripts themselves, versions 1.0 to 2.1; there is no published schema.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.claude_prompts import Position, Segment, read_prompt
from convmemory.conversations.importers.claude_scan import (
    KNOWN_TYPES,
    MESSAGE_TYPES,
    OTHER_TYPES,
    Scan,
    queued_command,
    scan_file,
    session_id_of,
    sidechains,
)
from convmemory.conversations.importers.content import content_parts, kept_as_text
from convmemory.conversations.importers.lines import JsonObject, read_objects, read_objects_at
from convmemory.conversations.importers.values import clean, key_of, mapping_of, text_of, time_of, without_payloads
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, is_global_id, named_by_opening
from convmemory.conversations.messages.parts import AttachmentPart, Part, TextPart, ToolCallPart, ToolResultPart
from convmemory.core.errors import InvalidInput

AGENT = "claude-code"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_MARKS = frozenset({"uuid", "sessionId", "session_id", "leafUuid", "parentUuid", "snapshot", "messageId"})
_HEAD_MARKS = re.compile(rb'"(?:parentUuid|sessionId)"\s*:')

_ENVELOPE = frozenset(
    {
        *("type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "sessionKind", "timestamp", "version"),
        *("cwd", "gitBranch", "userType", "entrypoint", "isSidechain", "slug"),
    }
)


@dataclass(frozen=True, slots=True)
class ClaudeCodeImporter:
    """Reads one session or subagent file."""

    name: str = "claude-code"
    checked: Checked = Checked("Claude Code", "2.1.332")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        best, is_foreign = 0, False
        for item in source.head_objects:
            kind, value = text_of(item.value.get("type")), item.value
            if not _MARKS & value.keys():
                continue
            if kind in MESSAGE_TYPES:
                if "content" in mapping_of(value.get("message")):
                    return 95
                is_foreign = True  # programs that descend from it keep their messages otherwise
            if kind in OTHER_TYPES:
                best = 80
        if is_foreign:
            return None
        if source.is_one_long_line and b'"type"' in source.head and _HEAD_MARKS.search(source.head):
            best = 60
        return best or None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        path = source.path
        subagent = path.stem.startswith("agent-")
        scan = scan_file(path, report, subagent=subagent)
        report.written_by(scan.version, self.checked)
        parent_id = _parent_id(path, scan) if subagent else ""
        own_id = (
            _bounded(f"{parent_id}:{path.stem}" if parent_id else path.stem)
            if subagent
            else _session_id(path, scan.session_id)
        )
        # Earlier versions named a renamed session by its file, too.
        former_id = own_id if subagent else _bounded(f"{path.stem}:{scan.session_id}" if scan.session_id else path.stem)
        chains = sidechains(scan)
        plan = scan.queue.plan()
        if scan.messages or plan:
            lines = read_objects(path, until=scan.end)
            main = lines if subagent else (item for item in lines if item.value.get("isSidechain") is not True)
            reader = MessageReader(report, plan, superseded=scan.rewinds.superseded(), queued_at=scan.queued_at)
            draft = ConversationDraft(
                messages=reader.read(main),
                source=self.name,
                source_id=own_id,
                title=scan.title,
                agent=AGENT,
                project=scan.cwd,
                created_at=scan.created_at,
                parent_source_id=parent_id,
                continued_in=_bounded(scan.continued_in),
                is_fork=scan.is_fork,
                is_automated=scan.is_automated,
                has_weak_id=not is_global_id(own_id),
                former_ids=(former_id,) if former_id != own_id else (),
            )
            draft = draft if own_id else named_by_opening(draft)
            own_id = draft.source_id
            yield draft
        for chain in chains:
            draft = ConversationDraft(
                messages=MessageReader(report).read(read_objects_at(path, chain.addresses, until=scan.end)),
                source=self.name,
                source_id=_bounded(f"{own_id}:{chain.name}"),
                title=chain.title,
                agent=AGENT,
                project=scan.cwd,
                created_at=chain.created_at,
                parent_source_id=own_id,
                is_automated=scan.is_automated,
                has_weak_id=not is_global_id(own_id),
                former_ids=(_bounded(f"{former_id}:{chain.name}"),) if former_id != own_id else (),
            )
            yield draft if own_id else named_by_opening(draft)
        if not scan.messages and not chains and not plan:
            if scan.without_content:
                report.skip("messages", f"{scan.without_content} lines of messages have no content")
            report.note("a session without any message")


def _session_id(path: Path, session_id: str) -> str:
    """Return the session's id: the file's name if that is one, else the id in the file; "" without either."""
    return _bounded(path.stem if _UUID.fullmatch(path.stem) else session_id)


def _parent_id(path: Path, scan: Scan) -> str:
    """Return the session that a subagent's file belongs to: by its folder, else by the session id in it."""
    names = [folder.name for folder in path.parents]
    if "subagents" in names:
        folder = path.parents[names.index("subagents") + 1]
        return _session_id(folder.with_name(f"{folder.name}.jsonl"), _named_session(folder, scan))
    return "" if scan.session_id == path.stem else scan.session_id


def _named_session(folder: Path, scan: Scan) -> str:
    """Return the session id in the parent's file, which is next to the folder `<session>/`."""
    if _UUID.fullmatch(folder.name):
        return ""
    session_id = ""
    try:
        for item in read_objects(folder.with_name(f"{folder.name}.jsonl")):
            if text_of(item.value.get("type")) in KNOWN_TYPES:
                session_id = session_id_of(item.value) or session_id
    except InvalidInput:
        return scan.session_id
    return session_id


def _bounded(source_id: str) -> str:
    return key_of(source_id, max_chars=MAX_ID_CHARS)


@dataclass(slots=True)
class _Answer:
    """An assistant message that is being joined from its lines."""

    message_id: str
    key: str
    model: str
    created_at: datetime | None
    by_harness: bool
    superseded: bool
    parts: list[Part] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    _calls: set[str] = field(default_factory=set)

    def add(self, parts: Sequence[Part], line: bytes) -> None:
        # A later line of the same message can repeat a call.
        self.parts.extend(part for part in parts if not (isinstance(part, ToolCallPart) and part.id in self._calls))
        self._calls.update(part.id for part in parts if isinstance(part, ToolCallPart) and part.id)
        self.lines.append(line)

    def draft(self) -> MessageDraft:
        return MessageDraft(
            role="system" if self.by_harness else "assistant",
            parts=tuple(self.parts),
            created_at=self.created_at,
            model=self.model,
            source_key=self.key,
            injected=self.by_harness,
            superseded=self.superseded,
            raw=b"\n".join(self.lines),
        )


@dataclass(slots=True)
class MessageReader:
    """Converts lines, in the order of the file, to messages.

    Assistant lines with one message id are joined; text of the harness becomes a system message, also the CLI's own
    answers in the assistant's name (model `<synthetic>`: API errors, usage limits).

    `plan` has the queue's prompts by position, `superseded` the hashes of the uuids that a rewind superseded.
    """

    report: FileReport
    plan: Mapping[Position, list[Segment]] = field(default_factory=dict)
    superseded: Collection[int] = ()
    queued_at: Mapping[str, datetime] = field(default_factory=dict)  # the time of each prompt, by its key
    _seen: set[int] = field(default_factory=set)
    _tool_names: dict[str, str] = field(default_factory=dict)
    _answer: _Answer | None = None
    _behind_answer: list[MessageDraft] = field(default_factory=list)

    def read(self, lines: Iterable[JsonObject]) -> Iterator[MessageDraft]:
        """Yield the messages of these lines."""
        for item in lines:
            kind = item.value.get("type")
            if kind == "assistant":
                yield from self._assistant(item)
            elif kind == "user":
                yield from self._after_answer(self._user(item))
            elif kind == "queue-operation" and item.value.get("operation") == "enqueue":
                yield from self._after_answer(self._queued(item, ()))
            elif kind == "attachment" and queued_command(item.value)[0]:
                prompt = mapping_of(item.value.get("attachment")).get("prompt")
                yield from self._after_answer(self._queued(item, self._parts(item, prompt)))
            elif text_of(kind) not in KNOWN_TYPES:
                # A line of an unknown type as a system message with its content as text.
                kept = kept_as_text({key: value for key, value in item.value.items() if key not in _ENVELOPE})
                key = key_of(text_of(item.value.get("uuid")) or f"unknown:{hashlib.sha256(item.raw).hexdigest()[:40]}")
                if not kept or hash(key) in self._seen:
                    unknown = []
                else:
                    self._seen.add(hash(key))
                    unknown = [
                        replace(self._base(item), role="system", parts=tuple(kept), injected=True, source_key=key)
                    ]
                self._behind_answer += unknown
        yield from self._finished_answer()

    def _after_answer(self, drafts: list[MessageDraft]) -> Iterator[MessageDraft]:
        if drafts:
            yield from self._finished_answer()
            yield from drafts

    def _finished_answer(self) -> Iterator[MessageDraft]:
        answer, self._answer = self._answer, None
        if answer and answer.parts:
            yield answer.draft()
        waiting, self._behind_answer = self._behind_answer, []
        yield from waiting

    def _assistant(self, item: JsonObject) -> Iterator[MessageDraft]:
        content = self._fresh_content(item)
        if content is None:
            return
        message = mapping_of(item.value["message"])
        message_id, model = text_of(message.get("id")), text_of(message.get("model"))
        if self._answer is None or not message_id or self._answer.message_id != message_id:
            yield from self._finished_answer()
            self._answer = _Answer(
                message_id=message_id,
                key=_key(item),
                model=model,
                created_at=time_of(item.value.get("timestamp")),
                superseded=self._is_superseded(item),
                by_harness=model == "<synthetic>" or item.value.get("isApiErrorMessage") is True,
            )
        parts = self._parts(item, content)
        self._tool_names.update((part.id, part.name) for part in parts if isinstance(part, ToolCallPart))
        self._answer.add(parts, item.raw)

    def _user(self, item: JsonObject) -> list[MessageDraft]:
        content = self._fresh_content(item)
        if content is None:
            return []
        parts = self._parts(item, content)
        results = tuple(
            (part if part.name else replace(part, name=self._tool_names.get(part.call_id, "")))
            for part in parts
            if isinstance(part, ToolResultPart)
        )
        files = tuple(part for part in parts if isinstance(part, AttachmentPart))
        prompt = read_prompt(item.value)
        draft = self._base(item)
        drafts: list[MessageDraft] = []
        if results:
            drafts.append(replace(draft, role="tool", parts=results))
            draft = replace(draft, source_key=f"{draft.source_key}:text")
        if prompt.typed:
            drafts.extend(self._prompts(item.position, prompt.typed, files, draft))
        elif prompt.harness:
            harness: tuple[Part, ...] = (_text_part(prompt.harness), *files)
            drafts.append(replace(draft, role="system", parts=harness, injected=True))
        elif files:
            drafts.append(replace(draft, parts=files))
        elif parts and not results:
            drafts.append(replace(draft, role="system", parts=tuple(parts), injected=True))
        return drafts

    def _prompts(
        self, position: Position, typed: str, files: tuple[Part, ...], draft: MessageDraft
    ) -> Iterator[MessageDraft]:
        """Yield a person's prompt, split if several queued prompts came back as one."""
        segments = self.plan.get(position) or [("", typed)]
        if len(segments) == 1:
            segments = [(segments[0][0], typed)]
        for number, (key, text) in enumerate(segments):
            own_key = f"{draft.source_key}:{number}" if number else draft.source_key
            parts: tuple[Part, ...] = (_text_part(text), *files)
            yield replace(
                draft,
                parts=parts if number == 0 else parts[:1],
                source_key=key_of(key or own_key),
                created_at=self.queued_at.get(key, draft.created_at),
            )

    def _queued(self, item: JsonObject, parts: Iterable[Part]) -> list[MessageDraft]:
        """Return a queue entry or an attachment as a message if the plan has a prompt there."""
        segments = self.plan.get(item.position)
        if not segments:
            return []
        files = tuple(part for part in parts if isinstance(part, AttachmentPart))
        return list(self._prompts(item.position, segments[0][1], files, self._base(item)))

    def _fresh_content(self, item: JsonObject) -> str | list[Any] | None:
        """Return the line's content if it has any and the line did not occur before in the file."""
        content = mapping_of(item.value.get("message")).get("content")
        if content is None:
            self.report.skip(item.number, f"a line of type {item.value.get('type')} without message content")
            return None
        uuid = hash(text_of(item.value.get("uuid")) or item.position)
        if uuid in self._seen:
            return None
        self._seen.add(uuid)
        return content if isinstance(content, (str, list)) else [content]

    def _parts(self, item: JsonObject, content: object) -> list[Part]:
        return content_parts(content, unknown=self.report.unknown) if isinstance(content, (str, list)) else []

    def _base(self, item: JsonObject) -> MessageDraft:
        return MessageDraft(
            role="user",
            parts=(),
            created_at=time_of(item.value.get("timestamp")),
            source_key=_key(item),
            superseded=self._is_superseded(item),
            raw=item.raw,
        )

    def _is_superseded(self, item: JsonObject) -> bool:
        return bool(self.superseded) and hash(text_of(item.value.get("uuid"))) in self.superseded


def _key(item: JsonObject) -> str:
    line_key = f"line:{item.number}" + (f".{item.index}" if item.index else "")
    return key_of(text_of(item.value.get("uuid")) or line_key)


def _text_part(text: str) -> TextPart:
    return TextPart(clean(without_payloads(text)))
