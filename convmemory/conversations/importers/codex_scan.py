"""The first pass over a rollout: its name, its rolled back turns, and the records that contain its prompts and answers.

A rollout contains everything twice, as an event and as an item for the model, and newer files a third time; the
importer reads one of them, depending on which exist. Stores counts and short texts, never messages.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.content import first_time
from convmemory.conversations.importers.lines import JsonObject, OnIssue, ignore_issue, read_objects
from convmemory.conversations.importers.threads import Timeline
from convmemory.conversations.importers.values import list_of, mapping_of, short_hash, text_of
from convmemory.conversations.messages.drafts import TITLE_CHARS
from convmemory.conversations.messages.usage import Usage, usage_of
from convmemory.core.text import one_line

_NOT_READ = re.compile(rb'"type"\s*:\s*"(?:compacted|world_state)"')
_STATE = re.compile(rb'"type"\s*:\s*"world_state"')
_COMPACTED = re.compile(rb'"type"\s*:\s*"compacted"')
MAX_RECOVERED = 10_000  # prompts of one file
_HARNESS = (
    *("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>"),
    *("<user_shell_command>", "<permissions instructions>", "<collaboration_mode>", "<INSTRUCTIONS>", "<subagent_"),
    "Another language model started to solve this problem",
    *("<model_switch>", "<personality_spec>", "# Files mentioned by the user:", "<goal_context>", "<hook_prompt"),
)


UserKind = Literal["event", "item", "message"]
"""The record with a person's prompt: `user_message`, a `UserMessage` item, or the message sent to the model."""

USER_KINDS: tuple[UserKind, ...] = ("event", "item", "message")


@dataclass(frozen=True, slots=True)
class _Prompt:
    kind: UserKind
    digest: str


@dataclass(frozen=True, slots=True)
class _RollBack:
    turns: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """A prompt that only a compaction repeats, at the line of that record, or the summary that replaced a session."""

    number: int
    text: str
    digest: str
    is_prompt: bool


@dataclass
class Scan:
    """The result of the first pass. `inherited` are ids of turns that a fork repeats from its original."""

    name: str = ""
    cwd: str = ""
    repository: str = ""
    version: str = ""
    parent_id: str = ""
    created_at: datetime | None = None
    items: int = 0
    has_answers: bool = False
    has_calls: bool = False
    inherited: frozenset[str] = frozenset()
    steps: list[_Prompt | _RollBack] = field(default_factory=list)
    openings: dict[UserKind, str] = field(default_factory=dict)  # the first prompt of each kind
    recovered: list[Recovered] = field(default_factory=list)
    first_recovered: str = ""  # if no prompt precedes it
    usages: dict[int, Usage] = field(default_factory=dict)  # by the numbers of the records that a request answered

    @cached_property
    def user_kind(self) -> UserKind:
        """The kind of record from which prompts are read."""
        return next((kind for kind in USER_KINDS if kind in self.openings), "message")

    @cached_property
    def _typed_digests(self) -> frozenset[str]:
        steps = (step for step in self.steps if isinstance(step, _Prompt))
        return frozenset(step.digest for step in steps if step.kind == self.user_kind)

    def counts(self, kind: UserKind, text: str) -> bool:
        """Return whether the prompt is read from this record: the messages to the model mostly repeat other records."""
        return kind == self.user_kind or (kind == "message" and _digest(text) not in self._typed_digests)

    @property
    def title(self) -> str:
        return self.name or self.first_recovered or self.openings.get(self.user_kind, "")

    @property
    def digests(self) -> Iterator[str]:
        """Yield the digests of all prompts of the file."""
        yield from (step.digest for step in self.steps if isinstance(step, _Prompt))
        yield from (prompt.digest for prompt in self.recovered)

    def superseded(self) -> set[str]:
        """Return the numbers of rolled back prompts, counted from 1."""
        line, count = Timeline(), 0
        for step in self.steps:
            if isinstance(step, _RollBack):
                line.roll_back(step.turns)
            elif step.kind == self.user_kind or (step.kind == "message" and step.digest not in self._typed_digests):
                count += 1
                line.add(str(count), opens_turn=True)
        return line.superseded

    @property
    def is_empty(self) -> bool:
        return not self.items and not self.openings and not self.recovered


def read_records(path: Path, *, on_issue: OnIssue = ignore_issue) -> Iterator[JsonObject]:
    """Yield the records of a rollout except repetitions, which are nine tenths of a long one. Raises: InvalidInput."""
    return read_objects(path, on_issue=on_issue, passing_over=_NOT_READ)


def scan_rollout(path: Path, report: FileReport) -> Scan:
    """Read the file once. Raises: InvalidInput."""
    scan = Scan()
    seen: set[str] = set()
    counter = _TokenCounter(scan.usages)
    for record in read_objects(path, on_issue=report.line_issue, passing_over=_STATE, passing_over_long=_COMPACTED):
        kind, payload = parted(record.value)
        if kind == "compacted":
            _recover(scan, record.number, payload, seen)
            continue
        scan.created_at = scan.created_at or first_time(payload if kind == "session_meta" else record.value)
        if kind == "session_meta":
            # Read the session's own record; it is repeated at each resumption, the first one counts.
            scan.cwd = scan.cwd or text_of(payload.get("cwd"))
            scan.repository = scan.repository or text_of(mapping_of(payload.get("git")).get("repository_url"))
            scan.version = text_of(payload.get("cli_version")) or scan.version
            source = mapping_of(payload.get("source"))
            spawned = mapping_of(mapping_of(source.get("subagent")).get("thread_spawn"))
            scan.parent_id = (
                scan.parent_id or text_of(spawned.get("parent_thread_id")) or text_of(payload.get("forked_from_id"))
            )
        elif kind == "event_msg":
            if payload.get("type") == "thread_name_updated":
                scan.name = one_line(text_of(payload.get("thread_name")), 300) or scan.name
            turns = payload.get("num_turns")
            if payload.get("type") == "thread_rolled_back" and type(turns) is int:
                scan.steps.append(_RollBack(turns))
        inner = payload.get("type")
        counter.read(record, payload)
        if kind == "turn_context":
            scan.cwd = scan.cwd or text_of(payload.get("cwd"))
        if kind in ("response_item", "bare"):
            scan.items += 1
            scan.has_answers = scan.has_answers or payload.get("role") == "assistant"
            scan.has_calls = scan.has_calls or inner in ("function_call", "custom_tool_call", "local_shell_call")
        elif inner in ("item_completed", "agent_message"):
            scan.items += 1
        prompt = prompt_of(kind, payload)
        if prompt:
            scan.steps.append(_Prompt(prompt[0], _digest(prompt[1])))
            seen.add(_digest(prompt[1]))
            scan.openings.setdefault(prompt[0], one_line(prompt[1], TITLE_CHARS))
    return scan


@dataclass
class _TokenCounter:
    """Assigns a count of tokens to the records before it, which answered one request."""

    usages: dict[int, Usage]
    _answers: list[int] = field(default_factory=list)
    _total: object = 0

    def read(self, record: JsonObject, payload: Mapping[str, Any]) -> None:
        if payload.get("type") != "token_count":
            self._answers.append(record.number)
            return
        counts = mapping_of(payload.get("info"))
        total = mapping_of(counts.get("total_token_usage")).get("total_tokens")
        request = f"{record.value.get('timestamp')} {record.number}"
        usage = usage_of(counts.get("last_token_usage"), request=request)
        if usage and total != self._total:  # a count is repeated when a limit changes
            self.usages |= dict.fromkeys(self._answers, usage)
        self._total, self._answers = total, []


def _recover(scan: Scan, number: int, payload: Mapping[str, Any], seen: set[str]) -> None:
    """Note the prompts that a compaction repeats of records that are gone: programs rewrite a rollout in its place."""
    repeated = (prompt_of("response_item", mapping_of(item)) for item in list_of(payload.get("replacement_history")))
    texts = [(text, True) for _, text in filter(None, repeated)]
    if text_of(payload.get("message")).strip():
        texts.append((text_of(payload["message"]), False))
    for text, is_prompt in texts:
        digest = _digest(text)
        if digest not in seen and len(scan.recovered) < MAX_RECOVERED:
            seen.add(digest)
            scan.recovered.append(Recovered(number, text, digest, is_prompt))
            if is_prompt and not scan.openings:
                scan.first_recovered = scan.first_recovered or one_line(text, TITLE_CHARS)


def turn_ids(path: Path) -> frozenset[str]:
    """Return the ids of a rollout's turns. Raises: InvalidInput."""
    contexts = (parted(record.value) for record in read_records(path))
    return frozenset(text_of(payload.get("turn_id")) for kind, payload in contexts if kind == "turn_context") - {""}


def parted(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return kind and payload of a record; legacy records are the item itself."""
    payload = value.get("payload")
    if isinstance(payload, Mapping):
        return text_of(value.get("type")), payload
    if "record_type" in value or ("instructions" in value and "type" not in value):
        return "state", value
    return "bare", value


def prompt_of(kind: str, payload: Mapping[str, Any]) -> tuple[UserKind, str] | None:
    """Return the kind of record and the prompt in it; None if it contains no prompt."""
    inner, typed = payload.get("type"), ""
    user_kind: UserKind = "message"
    if kind == "event_msg" and inner == "user_message":
        user_kind, typed = "event", text_of(payload.get("message"))
    elif kind == "event_msg" and inner == "item_completed":
        item = mapping_of(payload.get("item"))
        user_kind, typed = "item", joined(item.get("content")) if item.get("type") == "UserMessage" else ""
    elif kind in ("response_item", "bare") and payload.get("role") == "user":
        text = joined(payload.get("content")) or text_of(payload.get("message"))
        typed = "" if is_harness_text(text) else text
    return (user_kind, typed) if typed.strip() else None


def is_harness_text(text: str) -> bool:
    """Return whether Codex wrote this in the user's name."""
    return text.lstrip().startswith(_HARNESS)


def _digest(text: str) -> str:
    return short_hash(text.strip(), 16)


def joined(content: object) -> str:
    """Return the text of a content, which is a string, or blocks with text."""
    if isinstance(content, str):
        return text_of(content)
    blocks = list_of(content)
    return "\n\n".join(filter(None, (text_of(mapping_of(block).get("text")) for block in blocks)))
