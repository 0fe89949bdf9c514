"""Sessions of Claude Code: `~/.claude/projects/<folder>/<session>.jsonl` and their subagents' files.

A session is named by its file, a message by its uuid. Subagents, in files of their own or inline as sidechains, become
conversations linked to the session.

Source: the transcripts themselves, versions 1.0 to 2.1; there is no published schema.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from convmemory.conversations.drafts import ConversationDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.claude_messages import MessageReader
from convmemory.conversations.importers.claude_scan import (
    KNOWN_TYPES,
    MESSAGE_TYPES,
    OTHER_TYPES,
    Scan,
    scan_file,
    sidechains,
)
from convmemory.conversations.importers.lines import read_objects, read_objects_at
from convmemory.conversations.importers.values import key_of, text_of
from convmemory.core.errors import InvalidInput

AGENT = "claude-code"
MAX_SOURCE_ID_CHARS = 290  # the column has 300

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_MARKS = frozenset({"uuid", "sessionId", "leafUuid", "parentUuid", "snapshot", "messageId"})
_HEAD_MARKS = re.compile(rb'"(?:parentUuid|sessionId)"\s*:')


@dataclass(frozen=True, slots=True)
class ClaudeCodeImporter:
    """Reads one session or subagent file."""

    name: str = "claude-code"
    checked: Checked = Checked("Claude Code", "2.1.219")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            return None
        best = 0
        for item in source.head_objects:
            kind, value = text_of(item.value.get("type")), item.value
            if not _MARKS & value.keys():
                continue
            if kind in MESSAGE_TYPES and isinstance(value.get("message"), dict):
                return 95
            if kind in OTHER_TYPES:
                best = 80
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
        own_id = _subagent_id(path, parent_id) if subagent else _session_id(path, scan.session_id)
        chains = sidechains(scan)
        plan = scan.queue.plan()
        if scan.messages or plan:
            lines = read_objects(path, until=scan.end)
            main = lines if subagent else (item for item in lines if item.value.get("isSidechain") is not True)
            reader = MessageReader(report, plan, superseded=scan.rewinds.superseded(), queued_at=scan.queued_at)
            yield ConversationDraft(
                messages=reader.read(main),
                source=self.name,
                source_id=own_id,
                title=scan.title,
                agent=AGENT,
                project=scan.cwd,
                created_at=scan.created_at,
                parent_source_id=parent_id,
                is_fork=scan.is_fork,
            )
        for chain in chains:
            yield ConversationDraft(
                messages=MessageReader(report).read(read_objects_at(path, chain.places, until=scan.end)),
                source=self.name,
                source_id=_bounded(f"{own_id}:{chain.name}"),
                title=chain.title,
                agent=AGENT,
                project=scan.cwd,
                created_at=chain.created_at,
                parent_source_id=own_id,
            )
        if not scan.messages and not chains and not plan:
            report.note("a session without any message")


def _session_id(path: Path, session_id: str) -> str:
    """Return the file's name; followed by the session's id if the name is not itself such an id."""
    if _UUID.fullmatch(path.stem) or session_id in ("", path.stem):
        return _bounded(path.stem)
    return _bounded(f"{path.stem}:{session_id}")


def _subagent_id(path: Path, parent_id: str) -> str:
    return _bounded(f"{parent_id}:{path.stem}" if parent_id else path.stem)


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
    try:
        for item in read_objects(folder.with_name(f"{folder.name}.jsonl")):
            if text_of(item.value.get("sessionId")) and text_of(item.value.get("type")) in KNOWN_TYPES:
                return text_of(item.value["sessionId"])
    except InvalidInput:
        return scan.session_id
    return ""


def _bounded(source_id: str) -> str:
    return key_of(source_id, max_chars=MAX_SOURCE_ID_CHARS)
