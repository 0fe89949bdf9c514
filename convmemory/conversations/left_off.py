"""Says where the work in a project stopped: the last session's outcome, open steps, changed files and failing command.

Read from the stored outcomes of its turns and the agent's last list of steps. `text` is for an agent at its start, and
has at most `MAX_TOKENS`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages.edits import path_in_project
from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, part_from_json, spoken_text
from convmemory.conversations.models import Conversation
from convmemory.conversations.names import with_known_names
from convmemory.conversations.reading import sessions_of, visible_conversations
from convmemory.core.text import RECALL_TAG, fenced, one_line, visible
from convmemory.core.tokens import cut_to_likely_tokens, likely_tokens
from convmemory.push.repositories import Repository

MAX_TOKENS = 150
MAX_MESSAGES, MAX_TURNS = 300, 20  # the last ones of the session
MAX_STEPS, MAX_FILES, LINE_CHARS = 5, 6, 160
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
    openings = last.messages.filter(superseded=False, outcome__isnull=False).order_by("-position")[:MAX_TURNS]
    stop = stop_of(
        [(row.role, [part_from_json(part) for part in row.parts]) for row in reversed(messages)],
        [Outcome.from_json(row.outcome) for row in reversed(openings)],
        folder=last.worktree or last.project,
    )
    command = RESUME.get(last.source, "") if _ID.fullmatch(last.source_id) else ""
    resume = command.format(id=last.source_id)
    count = rows.count()
    return LeftOff(last, count, stop, resume, _text(last, count, stop, resume))


def stop_of(messages: Sequence[tuple[str, Sequence[Part]]], outcomes: Iterable[Outcome], folder: str = "") -> Stop:
    """Return where a session stopped, from its last messages (role and parts of each) and outcomes, in order. Pure."""
    asked = conclusion = failed = ""
    steps: tuple[str, ...] = ()
    for role, parts in messages:
        if role == "user" and (text := spoken_text(part for part in parts if isinstance(part, TextPart)).strip()):
            asked = text
        for part in parts:
            if isinstance(part, ToolCallPart) and _LISTS.search(part.name) and (listed := _steps(part)) is not None:
                steps = listed
    files: dict[str, None] = {}
    for outcome in outcomes:
        conclusion = outcome.conclusion or conclusion
        files |= dict.fromkeys(path_in_project(path, folder) for path in outcome.files)
        failed = outcome.failed or failed
        failed = "" if failed == outcome.passed else failed
    return Stop(
        one_line(asked, LINE_CHARS),
        conclusion,
        tuple(one_line(step, LINE_CHARS) for step in steps[:MAX_STEPS]),
        tuple(one_line(path, LINE_CHARS) for path in list(files)[-MAX_FILES:]),
        failed,
    )


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
        left = MAX_TOKENS - LABEL_TOKENS - likely_tokens(_fenced(lines))
        if not value or left < LEAST_TOKENS:
            continue
        whole = visible(value)
        cut = cut_to_likely_tokens(whole, min(TOKENS[name], left))
        line = f"{name}: {cut}" if cut == whole else f"{name}: {cut.rstrip()}…"
        longer = [*lines[: len(lines) - bool(tail)], line, *lines[len(lines) - bool(tail) :]]
        if likely_tokens(_fenced(longer)) <= MAX_TOKENS:
            lines = longer
    return _fenced(lines)


def _fenced(lines: Iterable[str]) -> str:
    return fenced("\n".join(lines), RECALL_TAG)
