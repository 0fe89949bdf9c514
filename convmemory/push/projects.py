"""The sessions in a file of an agent, with the project folder of each, by which rules leave them out.

Most files are one session. A history of prompts and the databases of some agents are shared by all sessions: `reduce`
writes a copy with some of them. The importers of the server read the same folders
(`tests/contracts/test_projects_of_files.py`). Standard library only.
"""

import contextlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from .databases import DATABASES, Session, can_divide, folder_of, folder_of_thread, stored_sessions, write_sessions
from .stores import SessionStore

MAX_NAMED_BYTES = 4096


class Unreadable(Exception):
    """The sessions of a file cannot be separated, or their folders cannot be read."""


# In which file next to a session, or in the session itself, and under which keys its folder is: the folder in which it
# ran rather than the root of its repository, because rules of both apply to it.
_FIELDS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "amp": (("", ("env.initial.trees.0.uri",)),),
    "amplifier": (("metadata.json", ("working_dir",)),),
    "claude-code": (("", ("cwd",)),),
    "cline": (
        ("history_item.json", ("workspace", "cwdOnTaskInitialization")),
        ("{name}.json", ("workspace_root", "cwd")),
        ("../../state/taskHistory.json", ("{folder}.workspace", "{folder}.cwdOnTaskInitialization")),
    ),
    "codex": (("", ("payload.cwd", "cwd")),),
    "continue": (("", ("workspaceDirectory",)),),
    "copilot-cli": (("", ("data.context.cwd", "data.context.gitRoot")),),
    "droid": (("", ("cwd",)),),
    "goose": (("", ("working_dir",)),),
    "grok-build": (("summary.json", ("info.cwd", "git_root_dir")),),
    "kimi-code": (("../../state.json", ("workDir",)),),
    "mistral-vibe": (("meta.json", ("environment.working_directory",)),),
    "opencode": (("", ("directory",)),),
    "pi": (("", ("cwd",)),),
    "qwen-code": (("", ("cwd",)),),
    "vscode-copilot": (("../workspace.json", ("folder", "workspace")),),
}
# Of files that were copied somewhere, whose agent is not known.
_INSIDE = [keys for fields in _FIELDS.values() for file, keys in fields if not file]
_FIELDS["folder"] = (("", tuple(dict.fromkeys(key for keys in _INSIDE for key in keys))),)
_FIELDS["roo"] = _FIELDS["kilo"] = _FIELDS["cline"]
_NOT_OF_SLUGS = re.compile(r"[^a-zA-Z0-9]++")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_shared(store: SessionStore, path: Path) -> bool:
    """Return whether the file contains sessions of several folders."""
    return path.suffix in DATABASES or path.name == "history.jsonl"


def name_of(store: SessionStore, path: Path) -> str:
    """Return the path of a file in the folders of its agent."""
    return path.relative_to(store.path if store.path.is_dir() else store.path.parent).as_posix()


def can_reduce(store: SessionStore, path: Path) -> bool:
    """Return whether `reduce` can divide the file."""
    return path.suffix not in DATABASES or can_divide(store.agent)


def sessions_in(store: SessionStore, path: Path) -> list[Session]:
    """Return the sessions in a file. Raises: Unreadable."""
    try:
        if path.suffix in DATABASES:
            return list(stored_sessions(store.agent, path))
        if is_shared(store, path):
            return [session for session, _ in _typed(store, path)]
        return [Session(name_of(store, path), project) for project in _projects(store, path)]
    except (OSError, sqlite3.Error, ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def reduce(store: SessionStore, path: Path, target: Path, keeps: Callable[[Session], bool]) -> None:
    """Write a copy of a shared file with the sessions that are kept, and with nothing that belongs to none.

    Raises: Unreadable, OSError, sqlite3.Error.
    """
    if path.suffix not in DATABASES:
        with target.open("wb") as file:
            file.writelines(line for session, line in _typed(store, path) if keeps(session))
        return
    ids = {session.id for session in stored_sessions(store.agent, path) if keeps(session)}
    write_sessions(store.agent, path, target, ids)


def _projects(store: SessionStore, path: Path) -> Iterator[str]:
    """Yield the folder of one session; several if its name can mean several, an empty string if there is none."""
    if store.agent == "gemini-cli":
        roots = [folder / ".project_root" for folder in list(path.parents)[:3]]
        root = next((root for root in roots if root.is_file()), None)
        if root is None:
            yield ""
            return
        with root.open("rb") as file:
            yield file.read(MAX_NAMED_BYTES).decode("utf-8", "replace").strip()
    elif store.agent == "cursor":
        named = path.parts[path.parts.index("agent-transcripts") - 1]
        yield from list(_folders_named(Path(path.anchor), named)) or [""]
    elif path.name.endswith(".jsonl.zst"):
        yield _codex_folder(store, path)
    elif store.agent == "folder":
        named = ""
        if path.suffix in (".json", ".jsonl"):
            with contextlib.suppress(ValueError, RecursionError):
                named = _field(store, path)
        yield named or str(path.parent)
    else:
        yield _field(store, path)


def _field(store: SessionStore, path: Path) -> str:
    name = path.name.removesuffix(".messages.json") if path.name.endswith(".messages.json") else path.stem
    for file, keys in _FIELDS.get(store.agent, ()):
        other = path.parent / file.format(name=name) if file else path
        if other.is_file():
            for value in _values(other):
                for key in keys:
                    text = _at(value, key.format(folder=path.parent.name))
                    if isinstance(text, str) and text.strip():
                        return folder_of(text)
    return ""


def _values(path: Path) -> Iterator[Any]:
    """Yield the values of a JSON file: its lines, or the one that it is; a list of tasks by the task's id."""
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # a line that is being written, or two objects on one
        return
    yield _tasks(path, path.stat().st_mtime_ns) if path.name == "taskHistory.json" else json.loads(path.read_bytes())


@lru_cache(maxsize=4)
def _tasks(path: Path, modified_ns: int) -> dict[str, Any]:
    """Return the entries of a list of all tasks by their ids."""
    value = json.loads(path.read_bytes())
    return {str(_at(item, "id")): item for item in value} if isinstance(value, list) else {}


def _at(value: Any, key: str) -> Any:
    for step in key.split("."):
        if isinstance(value, list):
            value = value[int(step)] if step.isdigit() and int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _folders_named(folder: Path, name: str) -> Iterator[str]:
    """Yield the folders that Cursor names so: with a hyphen for whatever is no letter and no digit."""
    try:
        inner = [each for each in folder.iterdir() if each.is_dir()]
    except OSError:
        return
    for each in inner:
        slug = _NOT_OF_SLUGS.sub("-", each.name).strip("-")
        if name == slug:
            yield str(each)
        elif slug and name.startswith(f"{slug}-"):
            yield from _folders_named(each, name[len(slug) + 1 :])


def _codex_folder(store: SessionStore, path: Path) -> str:
    """Return the folder of a compressed rollout: from it if this Python can, or from Codex' own list of threads."""
    try:
        from compression import zstd  # type: ignore[import-not-found]  # since Python 3.14
    except ImportError:
        pass
    else:
        with zstd.open(path, "rb") as file:
            return next((folder_of(cwd) for line in file if (cwd := _at(json.loads(line), "payload.cwd"))), "")
    for id in _UUID.findall(path.name)[:1]:
        for database in sorted(store.path.parent.glob("state*.sqlite"), reverse=True):
            folder = folder_of_thread(database, id)
            if folder:
                return folder
    raise Unreadable("it is compressed, and this Python cannot read it: use Python 3.14 or newer")


def _typed(store: SessionStore, path: Path) -> Iterator[tuple[Session, bytes]]:
    """Yield the lines of a history of prompts with their sessions."""
    of_codex = dict(_codex_sessions(path.parent)) if store.agent == "codex-history" else {}
    with path.open("rb") as file:
        for line in file:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            id = str(_at(value, "sessionId") or _at(value, "session_id") or "")
            yield Session(id, of_codex.get(id, "") if of_codex else folder_of(str(_at(value, "project") or ""))), line


def _codex_sessions(folder: Path) -> Iterator[tuple[str, str]]:
    for name in ("sessions", "archived_sessions"):
        store = SessionStore("codex", folder / name, (".jsonl", ".jsonl.zst"))
        for path in store.files():
            for id in _UUID.findall(path.name)[:1]:
                for session in sessions_in(store, path):
                    yield id, session.project
