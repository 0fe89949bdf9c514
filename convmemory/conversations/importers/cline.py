"""Tasks of Cline, Roo Code and the old Kilo Code: a folder with `api_conversation_history.json`, or Cline's sessions.

Messages have Anthropic's format, and the file is rewritten at each save. The editor's wrapper around a prompt is
removed; tool results that came as text become results again.

Source: cline/cline `src/core/storage/disk.ts`, RooCodeInc/Roo-Code `src/core/task-persistence`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import AnyBlock, Block, listed_blocks, record_messages
from convmemory.conversations.importers.json_arrays import dumped, load_json, objects_in
from convmemory.conversations.importers.threads import MessageKeys
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id, named_by_opening
from convmemory.conversations.messages.parts import Role
from convmemory.core.errors import ConvMemoryError

HISTORY = "api_conversation_history.json"
SESSION_ENDING = ".messages.json"
COMPANIONS = frozenset({HISTORY, "ui_messages.json", "task_metadata.json", "history_item.json", "settings.json"})
MAX_TASK_BYTES = 256 * 1024**2

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_WRAPPERS = ("task", "feedback", "answer", "user_message", "user_input")
_RESULT = "] Result:"
_TASK_ID = re.compile(r"\d{13}")  # of its start, in milliseconds
_HARNESS = ("<environment_details>", "[ERROR] You did not use a tool", "[TASK RESUMPTION]", "<explicit_instructions")


@dataclass(frozen=True, slots=True)
class ClineImporter:
    """Reads one task's folder, or one session's file."""

    name: str = "cline"
    checked: Checked = Checked("Cline", "3.90")
    reads: Reads = Reads(folders=True, folder_entries=COMPANIONS)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            path = source.path / HISTORY
            return self.sniff(Source(path)) if path.is_file() else None
        if source.path.name == HISTORY and b'"role"' in source.head and b'"content"' in source.head:
            return 92
        named = source.path.name.endswith(SESSION_ENDING) and b'"messages"' in source.head
        return 85 if named else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        path = source.path / HISTORY if source.is_folder else source.path
        value = load_json(path, max_bytes=MAX_TASK_BYTES)
        listed = value if isinstance(value, list) else mapping_of(value).get("messages")
        messages = list(objects_in(listed, "message", report))
        if not messages:
            report.note("a task without any message")
            return
        task = path.name.removesuffix(SESSION_ENDING) if path.name.endswith(SESSION_ENDING) else path.parent.name
        about = _about(path, task)
        folders = path.resolve().as_posix().lower()
        agent = (
            "roo"
            if any(mark in folders for mark in ("roo-cline", "roo-code", "/roo/"))
            else "kilo"
            if "kilo" in folders
            else "cline"
        )
        is_given = is_global_id(task) or _TASK_ID.match(task) is not None
        draft = ConversationDraft(
            messages=_messages(messages, text_of(about.get("model")), report),
            source=agent,
            source_id=key_of(task, max_chars=290),
            has_weak_id=not is_given,
            title=text_of(about.get("task")),
            agent=agent,
            project=text_of(about.get("workspace")) or text_of(about.get("cwdOnTaskInitialization")),
            # A task's id is the time of its start in milliseconds.
            created_at=time_of(about.get("ts")) or time_of(task),
            parent_source_id=key_of(text_of(about.get("parentTaskId")), max_chars=290),
        )
        # A folder without any number is one that a person made.
        is_named = is_given or any(map(str.isdecimal, task))
        yield draft if is_named else named_by_opening(draft, former_ids=[draft.source_id])


def _about(path: Path, task: str) -> Mapping[str, Any]:
    """Return the extension's notes on the task: from a file in its folder, or from the list of all tasks."""
    session = path.with_name(f"{task}.json") if path.name.endswith(SESSION_ENDING) else None
    task_path, list_path = path.parent / "history_item.json", path.parent.parent.parent / "state" / "taskHistory.json"
    try:
        if session is not None and session.is_file():
            # The notes on a session, in the words of the notes on a task.
            value = mapping_of(load_json(session))
            return {
                "task": mapping_of(value.get("metadata")).get("title"),
                "workspace": text_of(value.get("workspace_root")) or text_of(value.get("cwd")),
                "ts": value.get("started_at"),
                "model": value.get("model"),
            }
        if task_path.is_file():
            return mapping_of(load_json(task_path))
        items = load_json(list_path) if list_path.is_file() else []
    except ConvMemoryError:
        return {}  # optional: without it the title is the first question
    return next((item for item in map(mapping_of, list_of(items)) if item.get("id") == task), {})


def is_of_session(path: Path) -> bool:
    """Return whether the file holds the notes on a session whose messages are in another file."""
    return path.suffix == ".json" and path.with_name(f"{path.stem}{SESSION_ENDING}").is_file()


def _messages(messages: list[Mapping[str, Any]], model: str, report: FileReport) -> Iterator[MessageDraft]:
    keys = MessageKeys()
    for number, value in enumerate(messages, 1):
        role = _ROLES.get(text_of(value.get("role")))
        if role is None:
            report.skip(f"message {number}", f"unknown role {text_of(value.get('role'))[:40]!r}")
            continue
        content = value.get("content")
        key = text_of(value.get("id")) or keys.key(role, dumped(content).decode())
        if role == "user":
            # A person's text with the results of tools; the editor's additions are a message of their own.
            typed: list[AnyBlock] = []
            added: list[AnyBlock] = []
            for block in listed_blocks(content):
                if isinstance(block, Mapping) and block.get("type") not in ("text", None):
                    typed.append(block)
                    continue
                text = block if isinstance(block, str) else text_of(block.get("text"))
                start = text.lstrip()
                if start.startswith(_HARNESS):
                    added.append(Block.text(text))
                elif start.startswith("[") and _RESULT in start.partition("\n")[0]:
                    # A result that came as text: `[read_file for 'a.py'] Result:` and its content.
                    call, _, output = start.partition(_RESULT)
                    name = call.removeprefix("[").split(" ", 1)[0]
                    typed.append(Block.result(id="", name=name, content=output.strip()))
                else:
                    # The editor's tag around it is left out: `<task>…</task>`, `<user_input mode="act">…`.
                    opening, _, rest = start.partition(">")
                    name = opening.removeprefix("<").partition(" ")[0]
                    inner, closed, _ = rest.partition(f"</{name}>")
                    is_wrapped = opening.startswith("<") and name in _WRAPPERS and closed
                    typed.append(Block.text(inner.strip() if is_wrapped else start))
            common: dict[str, Any] = {"unknown": report.unknown, "created_at": _time(value)}
            yield from record_messages(role="user", blocks=typed, key=key, raw=dumped(value), **common)
            yield from record_messages(role="system", blocks=added, key=f"{key}:added", injected=True, **common)
            continue
        about = mapping_of(value.get("modelInfo"))
        yield from record_messages(
            role=role, blocks=listed_blocks(content), key=key, unknown=report.unknown, created_at=_time(value),
            model=text_of(about.get("modelId")) or text_of(about.get("id")) or model, raw=dumped(value),
        )  # fmt: skip


def _time(value: Mapping[str, Any]) -> Any:
    return time_of(value.get("ts"))
