"""Says where the work in a project stopped: the last session's outcome, open steps, changed files and failing command.

Read from the messages, without a model. `text` is for an agent at its start, and has at most `MAX_TOKENS`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages.edits import path_in_project
from convmemory.conversations.messages.outcomes import changed_files, command_of, has_failed
from convmemory.conversations.messages.parts import (
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    part_from_json,
    spoken_text,
)
from convmemory.conversations.models import Conversation
from convmemory.conversations.names import with_known_names
from convmemory.conversations.reading import sessions_of, visible_conversations
from convmemory.core.text import RECALL_TAG, fenced, one_line, visible
from convmemory.core.tokens import ESTIMATE, count_tokens, cut_to_tokens
from convmemory.push.repositories import Repository

MAX_TOKENS = 150
MAX_MESSAGES = 300  # the last ones of the session
MAX_STEPS, MAX_FILES = 5, 6
LINE_CHARS, OUTCOME_CHARS = 160, 600
TOKENS = {"Outcome": 50, "Open": 30, "Fails": 20, "Changed": 25, "Asked": 20}
LABEL_TOKENS, LEAST_TOKENS = 8, 8
RESUME = {
    "claude-code": "claude --resume {id}",
    "codex": "codex resume {id}",
    "copilot-cli": "copilot --resume {id}",
    "gemini-cli": "gemini --resume {id}",
    "kilo": "kilo --session {id}",
    "opencode": "opencode --session {id}",
    "qwen-code": "qwen --resume {id}",
}
"""The command by which each agent continues a session, by the source of the conversation."""

_ID = re.compile(r"[A-Za-z0-9_-]{8,80}")
_LISTS = re.compile(r"todo|plan", re.IGNORECASE)
_DONE = ("completed", "done", "cancelled", "canceled")


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a session stopped. Each text is one line."""

    asked: str = ""
    outcome: str = ""
    open_steps: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    failed_command: str = ""


@dataclass(frozen=True, slots=True)
class LeftOff:
    """Where the work in a project stopped, with the number of its conversations and the text for an agent."""

    conversation: Conversation
    count: int
    stop: Stop
    resume: str
    text: str

    def to_json(self) -> dict[str, Any]:
        last = self.conversation
        return {
            "conversation_id": last.pk, "title": last.title, "agent": last.agent, "updated_at": last.updated_at,
            "url": f"{last.get_absolute_url()}?turn={last.last_turn}", "conversations": self.count,
            **asdict(self.stop), "resume": self.resume, "text": self.text,
        }  # fmt: skip


def left_off(
    *, caller: Caller, project: str, repository: Repository | None = None, exclude_session: str = ""
) -> LeftOff | None:
    """Return where the caller's work in the project stopped; None if it has no conversation with a turn."""
    filters = with_known_names(caller.archive_id, Filters(project=project, repository=repository))
    rows = visible_conversations(caller, filters).filter(turn_count__gt=0)
    if exclude_session:
        rows = rows.exclude(pk__in=sessions_of(caller=caller, session_id=exclude_session))
    last = rows.filter(parent=None).order_by("-updated_at", "-id").first()
    if last is None:
        return None
    messages = last.messages.filter(superseded=False).order_by("-position")[:MAX_MESSAGES]
    stop = stop_of(
        [(row.role, [part_from_json(part) for part in row.parts]) for row in reversed(messages)],
        folder=last.worktree or last.project,
    )
    command = RESUME.get(last.source, "") if _ID.fullmatch(last.source_id) else ""
    resume = command.format(id=last.source_id)
    count = rows.count()
    return LeftOff(last, count, stop, resume, _text(last, count, stop, resume))


def stop_of(messages: Sequence[tuple[str, Sequence[Part]]], folder: str = "") -> Stop:
    """Return where a session stopped, from its last messages in order: role and parts of each. Pure."""
    asked = outcome = ""
    steps: tuple[str, ...] = ()
    files: dict[str, None] = {}
    commands: dict[str, str] = {}
    failed: dict[str, None] = {}
    for role, parts in messages:
        text = spoken_text(part for part in parts if isinstance(part, TextPart)).strip()
        if role == "user" and text:
            asked = text
        elif role == "assistant" and text:
            outcome = text
        for part in parts:
            if isinstance(part, ToolCallPart):
                command = command_of(part)
                if command:
                    commands[part.id] = command
                files |= dict.fromkeys(path_in_project(path, folder) for path in changed_files(part))
                listed = _steps(part) if _LISTS.search(part.name) else None
                steps = steps if listed is None else listed
            elif isinstance(part, ToolResultPart) and (command := commands.get(part.call_id, "")):
                failed.pop(command, None)
                if has_failed(part):
                    failed[command] = None
    return Stop(
        one_line(asked, LINE_CHARS),
        _conclusion(outcome),
        tuple(one_line(step, LINE_CHARS) for step in steps[:MAX_STEPS]),
        tuple(one_line(path, LINE_CHARS) for path in list(files)[-MAX_FILES:]),
        one_line(next(reversed(failed), ""), LINE_CHARS),
    )


def _conclusion(text: str) -> str:
    """Return the last paragraph that says something; with a heading or a list, the line before it, too."""
    paragraphs = [one_line(each, OUTCOME_CHARS) for each in text.split("\n\n")]
    kept = [each for each in paragraphs if each and not each.startswith(("```", "|", "---"))]
    if not kept:
        return ""
    is_part = kept[-1].startswith(("-", "*", "1.", "#")) and len(kept) > 1
    return one_line(" ".join(kept[-2:] if is_part else kept[-1:]), OUTCOME_CHARS)


def _steps(call: ToolCallPart) -> tuple[str, ...] | None:
    """Return the steps of a list of an agent that are not done; None if the call has no list."""
    for value in call.input.values():
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            steps = [(item, item.get("content") or item.get("step") or item.get("description")) for item in value]
            return tuple(str(step) for item, step in steps if step and item.get("status") not in _DONE)
        if isinstance(value, str) and "[ ]" in value:
            lines = (line.strip(" -*") for line in value.splitlines())
            return tuple(line.removeprefix("[ ]").strip() for line in lines if line.startswith("[ ]"))
    return None


def _text(last: Conversation, count: int, stop: Stop, resume: str) -> str:
    """Return the lines for an agent, within the budget."""
    about = ", ".join(filter(None, [f"{last.updated_at:%Y-%m-%d}", one_line(last.agent, 30)]))
    title = one_line(last.title, 80).replace('"', "'")
    head = f'This project has {count} earlier conversation{"s" * (count != 1)}. The last, "{title}" ({about}):'
    tail = f"Resume: {resume}" if resume else ""
    values = {
        "Outcome": stop.outcome,
        "Open": "; ".join(stop.open_steps),
        "Fails": stop.failed_command,
        "Changed": ", ".join(stop.changed_files),
        "Asked": stop.asked,
    }
    lines = [head, *([tail] if tail else [])]
    for name, value in values.items():
        left = MAX_TOKENS - LABEL_TOKENS - count_tokens(_fenced(lines), encoding=ESTIMATE)
        if not value or left < LEAST_TOKENS:
            continue
        line = f"{name}: {_cut(visible(value), min(TOKENS[name], left))}"
        longer = [*lines[: len(lines) - bool(tail)], line, *lines[len(lines) - bool(tail) :]]
        if count_tokens(_fenced(longer), encoding=ESTIMATE) <= MAX_TOKENS:
            lines = longer
    return _fenced(lines)


def _cut(text: str, tokens: int) -> str:
    cut = cut_to_tokens(text, tokens, encoding=ESTIMATE)
    return cut if cut == text else f"{cut.rstrip()}…"


def _fenced(lines: Iterable[str]) -> str:
    return fenced("\n".join(lines), RECALL_TAG)
