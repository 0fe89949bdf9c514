"""Shows a tool call in one line, and its to-dos. Takes parameters, returns plain values.

Calls are recognised by their parameters, not by the tool's name, so that the tools of all agents have cards: a command,
a file with its lines, a search with its place, a page, a question, a task, a list of to-dos.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.messages.parts import value_text
from convmemory.core.text import one_line

State = Literal["done", "active", "open", "dropped"]
STATE_NAMES = {"done": _("done"), "active": _("in progress"), "open": _("open"), "dropped": _("dropped")}
MAX_TODOS, TODO_CHARS, MAX_DEPTH = 200, 500, 5
_LISTS = ("todos", "plan", "items", "tasks", "todo_list")
_TEXTS = ("content", "step", "task", "title", "description", "text", "subject")
_STATES: Mapping[str, State] = {
    "completed": "done", "complete": "done", "done": "done", "true": "done", "in_progress": "active",
    "in-progress": "active", "active": "active", "cancelled": "dropped", "canceled": "dropped", "deleted": "dropped",
}  # fmt: skip
_COMMANDS = ("command", "cmd", "script", "chars")
_PATTERNS = ("pattern", "query", "search_query", "q", "regex", "glob_pattern")
_FILES = (
    "file_path", "path", "filePath", "target_file", "absolute_path", "relative_path", "notebook_path", "filename",
    "dir_path",
)  # fmt: skip
_OTHERS = ("url", "subject", "description", "question", "prompt", "title", "plan", "skill", "message")


@dataclass(frozen=True, slots=True)
class Todo:
    """One entry of a list of to-dos."""

    text: str
    state: State

    @property
    def state_name(self) -> str:
        return str(STATE_NAMES[self.state])


def todos_of(parameters: Mapping[str, Any]) -> tuple[Todo, ...]:
    """Return the to-dos that a call sets; none if it sets none."""
    for name in _LISTS:
        entries = parameters.get(name)
        if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
            todos = tuple(filter(None, map(_todo, entries[:MAX_TODOS])))
            if len(todos) == len(entries[:MAX_TODOS]):
                return todos
    return ()


def _todo(entry: Mapping[str, Any]) -> Todo | None:
    text = next((entry[name] for name in _TEXTS if isinstance(entry.get(name), str) and entry[name].strip()), "")
    state = entry.get("status", entry.get("state", entry.get("done", entry.get("completed"))))
    if not text or state is None:
        return None
    return Todo(one_line(text, TODO_CHARS), _STATES.get(str(state).lower(), "open"))


def card_line(parameters: Mapping[str, Any], max_chars: int) -> str:
    """Return what the call does in one line, without JSON: its command, its file, its search, or its first words."""
    if todos := todos_of(parameters):
        done = sum(todo.state == "done" for todo in todos)
        now = next((todo.text for todo in todos if todo.state == "active"), "")
        count = gettext("%(done)s of %(all)s done") % {"done": done, "all": len(todos)}
        return one_line(f"{count}: {now}" if now else count, max_chars)
    file = _first(parameters, _FILES)
    if command := _first(parameters, _COMMANDS):
        line = command
    elif pattern := _first(parameters, _PATTERNS):
        line = f"{pattern} · {file}" if file else pattern
    elif file:
        line = f"{file}{_lines_of(parameters)}"
    else:
        line = _first(parameters, _OTHERS) or " · ".join(_leaves(parameters.values()))
    return one_line(line, max_chars)


def _first(parameters: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first that is a string, or the strings of a list (commands come as either); "" if none is."""
    for value in map(parameters.get, names):
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            text = " ".join(value)
        else:
            text = value if isinstance(value, str) else ""
        if text:
            return text
    return ""


def _lines_of(parameters: Mapping[str, Any]) -> str:
    """Return the lines of a file that a call reads, as ":20-69"."""
    start, count = (parameters.get(name) for name in ("offset", "limit"))
    if not isinstance(start, int):
        return ""
    return f":{start}-{start + count - 1}" if isinstance(count, int) and count > 0 else f":{start}"


def _leaves(values: Iterable[Any], depth: int = 0) -> Iterator[str]:
    """Yield the strings and numbers in nested values, in order."""
    for value in values:
        if isinstance(value, (dict, list)):
            if depth < MAX_DEPTH:
                yield from _leaves(value.values() if isinstance(value, dict) else value, depth + 1)
        elif value not in (None, ""):
            yield str(value)


def plain_value(value: Any) -> str:
    """Return the value of a parameter as lines of text: a nested one as an indented list."""
    return value if isinstance(value, str) else "\n".join(_outline(value))


def _outline(value: Any, indent: str = "") -> Iterator[str]:
    if len(indent) > 2 * MAX_DEPTH or not isinstance(value, (dict, list)):
        yield indent + value_text(value)
        return
    pairs = value.items() if isinstance(value, dict) else (("-", each) for each in value)
    for name, each in pairs:
        label = name if name == "-" else f"{name}:"
        if isinstance(each, (dict, list)) and each:
            yield f"{indent}{label}"
            yield from _outline(each, f"{indent}  ")
        else:
            yield f"{indent}{label} {value_text(each)}"
