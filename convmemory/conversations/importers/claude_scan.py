"""The first pass over a Claude Code file: its title, its queue, its sidechains, and its length.

Stores positions and short texts, never messages; `claude_code.py` reads those from the positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.claude_prompts import (
    Kind,
    Prompt,
    QueueTracker,
    RewindTracker,
    has_tool_results,
    read_prompt,
    user_texts,
)
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.values import mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import TITLE_CHARS
from convmemory.core.text import one_line

MESSAGE_TYPES = frozenset({"user", "assistant"})
OTHER_TYPES = frozenset(
    {
        *(
            "summary",
            "file-history-snapshot",
            "file-history-delta",
            "queue-operation",
            "custom-title",
            "ai-title",
            "agent-name",
        ),
        *("last-prompt", "mode", "permission-mode", "pr-link", "frame-link", "worktree-state", "relocated"),
        *("bridge-session", "started", "result", "progress", "attachment", "system"),
        *("artifact-autoreact-ledger", "artifact-comment-monitor"),
        "continued-in",  # names the session in which this one continues
        # What was sent to the model, whole prompts among it, and what it cost. Seen in 2.1.332.
        *("api-request", "api-request-shape", "api-request-blob", "tools-used", "cost-state", "atis-latch"),
    }
)
# Sessions that programs start. Source: anthropics/claude-code, whose SDKs write sdk-ts, sdk-py and sdk-cli as the entry
# point; thedotmack/claude-mem, whose observers work in a folder of their own.
_SDK = "sdk-"
_OBSERVERS = ("/.claude-mem/observer-sessions/",)
KNOWN_TYPES = MESSAGE_TYPES | OTHER_TYPES


@dataclass(slots=True)
class Sidechain:
    """A subagent's messages inside its parent's file, by (offset, line number, index)."""

    name: str
    addresses: list[tuple[int, int, int]] = field(default_factory=list)
    title: str = ""
    created_at: datetime | None = None


@dataclass(slots=True)
class _SideLine:
    uuid: str
    parent: str
    agent_id: str
    address: tuple[int, int, int]
    is_message: bool
    title: str
    created_at: datetime | None


@dataclass(slots=True)
class Scan:
    """The result of the first pass."""

    end: int  # the file's length; later lines belong to the next import
    subagent: bool
    session_id: str = ""
    cwd: str = ""
    version: str = ""
    entrypoint: str = ""
    created_at: datetime | None = None
    messages: int = 0
    without_content: int = 0  # lines of messages that have none
    first_prompt: str = ""
    custom_title: str = ""
    ai_title: str = ""
    summaries: dict[str, str] = field(default_factory=dict)  # by the uuid that they summarise
    uuids: set[int] = field(default_factory=set)  # hashes of the uuids of this file's messages
    queue: QueueTracker = field(default_factory=QueueTracker)
    queued_at: dict[str, datetime] = field(default_factory=dict)  # when queued prompts were written, by their keys
    rewinds: RewindTracker = field(default_factory=RewindTracker)
    is_fork: bool = False
    continued_in: str = ""
    side_lines: list[_SideLine] = field(default_factory=list)

    @property
    def is_automated(self) -> bool:
        """True if a program started the session."""
        folder = f"{self.cwd.replace(chr(92), '/')}/"
        return self.entrypoint.startswith(_SDK) or any(mark in folder for mark in _OBSERVERS)

    @property
    def title(self) -> str:
        """The user's name for the session, else a model's, a summary of this session, or its first prompt."""
        session_summaries = [text for leaf, text in self.summaries.items() if hash(leaf) in self.uuids]
        return (
            self.custom_title
            or self.ai_title
            or (session_summaries[-1] if session_summaries else "")
            or self.first_prompt
        )


def scan_file(path: Path, report: FileReport, *, subagent: bool) -> Scan:
    """Read the file once. In a subagent's own file every line belongs to it. Raises: InvalidInput."""
    try:
        end = path.stat().st_size
    except OSError:
        end = 0  # opening it will raise the reason
    scan = Scan(end=end, subagent=subagent)
    for item in read_objects(path, on_issue=report.line_issue, until=scan.end):
        kind = text_of(item.value.get("type"))
        if kind not in KNOWN_TYPES:
            report.unknown(kind or "(no type)")
            continue
        # A resumed session begins with lines of the earlier one; a subagent's first line has its parent's id.
        if not (subagent and scan.session_id):
            scan.session_id = session_id_of(item.value) or scan.session_id
        scan.cwd = scan.cwd or text_of(item.value.get("cwd"))
        scan.entrypoint = scan.entrypoint or text_of(item.value.get("entrypoint"))
        # A background session begins with a copy of the session from which it was forked.
        scan.is_fork = scan.is_fork or item.value.get("sessionKind") == "bg"
        scan.version = text_of(item.value.get("version")) or scan.version
        if item.value.get("isSidechain") is True and not subagent:
            value = item.value
            title = one_line(read_prompt(value).typed, TITLE_CHARS) if value.get("type") == "user" else ""
            scan.side_lines.append(
                _SideLine(
                    uuid=text_of(value.get("uuid")),
                    parent=text_of(value.get("parentUuid")),
                    agent_id=text_of(value.get("agentId")),
                    address=(item.offset, item.number, item.index),
                    is_message=text_of(value.get("type")) in MESSAGE_TYPES,
                    title=title,
                    created_at=time_of(value.get("timestamp")),
                )
            )
        else:
            _scan_line(scan, item, kind)
    return scan


def session_id_of(value: Mapping[str, Any]) -> str:
    """Return the session's id, as transcripts or as streams of `claude -p` spell it."""
    return text_of(value.get("sessionId")) or text_of(value.get("session_id"))


def sidechains(scan: Scan) -> list[Sidechain]:
    """Return the scan's sidechains in file order; one for each agent id, or each root if there are no ids."""
    parents = {line.uuid: line.parent for line in scan.side_lines if line.uuid}
    roots: dict[str, str] = {}
    chains: dict[str, Sidechain] = {}
    for line in scan.side_lines:
        if not line.is_message:
            continue
        if line.agent_id:
            name = f"agent-{line.agent_id}"
        else:
            # The first line of the chain that this one belongs to.
            uuid = line.uuid
            path: list[str] = []
            seen: set[str] = set()
            while uuid not in roots and parents.get(uuid) in parents and uuid not in seen:
                path.append(uuid)
                seen.add(uuid)
                uuid = parents[uuid]
            root = roots.get(uuid, uuid)
            for step in (*path, uuid):
                roots[step] = root
            name = root
        chain = chains.setdefault(name, Sidechain(name))
        chain.addresses.append(line.address)
        chain.title = chain.title or line.title
        chain.created_at = chain.created_at or line.created_at
    return list(chains.values())


def _scan_line(scan: Scan, item: JsonObject, kind: str) -> None:
    value = item.value
    if kind in MESSAGE_TYPES:
        _scan_message(scan, item, kind)
        return
    scan.rewinds.line(text_of(value.get("uuid")), text_of(value.get("parentUuid")), Kind.HARNESS)
    if kind == "queue-operation":
        _scan_queue_operation(scan, item)
    elif kind == "attachment":
        text, key = queued_command(value)
        if text:
            scan.messages += 1
            scan.first_prompt = scan.first_prompt or one_line(text, TITLE_CHARS)
            scan.queue.attachment(item.position, text, key)
    elif kind == "custom-title":
        # The last title counts, because a session can be renamed.
        scan.custom_title = text_of(value.get("customTitle")) or scan.custom_title
    elif kind == "continued-in":
        scan.continued_in = text_of(value.get("continuedInSessionId")) or scan.continued_in
    elif kind == "ai-title":
        scan.ai_title = text_of(value.get("aiTitle")) or scan.ai_title
    elif kind == "summary" and text_of(value.get("leafUuid")):
        scan.summaries[value["leafUuid"]] = text_of(value.get("summary"))


def _scan_message(scan: Scan, item: JsonObject, kind: str) -> None:
    uuid = text_of(item.value.get("uuid"))
    if uuid and hash(uuid) in scan.uuids:
        return
    if mapping_of(item.value.get("message")).get("content") is None:
        scan.without_content += 1
        return
    if uuid:
        scan.uuids.add(hash(uuid))
    scan.messages += 1
    scan.created_at = scan.created_at or time_of(item.value.get("timestamp"))
    prompt = read_prompt(item.value) if kind == "user" else Prompt("", "")
    scan.rewinds.line(uuid, text_of(item.value.get("parentUuid")), _kind(item.value, kind, prompt))
    if prompt.typed:
        scan.first_prompt = scan.first_prompt or one_line(prompt.typed, TITLE_CHARS)
        scan.queue.prompt(item.position, prompt.typed)


def _kind(value: Mapping[str, Any], kind: str, prompt: Prompt) -> Kind:
    if kind == "assistant":
        return Kind.ANSWER
    if prompt.typed:
        return Kind.PROMPT
    return Kind.OTHER if has_tool_results(mapping_of(value.get("message")).get("content")) else Kind.HARNESS


def _scan_queue_operation(scan: Scan, item: JsonObject) -> None:
    queue, operation, text = scan.queue, item.value.get("operation"), queue_text(item.value)
    if operation == "enqueue":
        written_at = time_of(item.value.get("timestamp"))
        if text and (key := queue.enqueue(item.position, text)) and written_at:
            scan.queued_at[key] = written_at
    elif operation == "remove":
        queue.remove(text)
    elif operation == "dequeue":
        queue.dequeue()
    elif operation == "popAll":
        queue.pop_all(text)


def queue_text(value: Mapping[str, Any]) -> str:
    """Return the text of a queue operation."""
    return "\n\n".join(user_texts(value.get("content")))


def queued_command(value: Mapping[str, Any]) -> tuple[str, str]:
    """Return text and key of a prompt that came as an attachment; an empty text for any other attachment."""
    attachment = mapping_of(value.get("attachment"))
    kind = text_of(mapping_of(attachment.get("origin")).get("kind")) or "human"
    mode = text_of(attachment.get("commandMode")) or "prompt"
    if attachment.get("type") != "queued_command" or mode != "prompt" or kind != "human" or attachment.get("isMeta"):
        return "", ""
    text = "\n\n".join(user_texts(attachment.get("prompt")))
    return (text if not text.lstrip().startswith("<task-notification>") else ""), text_of(value.get("uuid"))
