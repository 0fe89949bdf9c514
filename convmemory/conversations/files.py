"""The files that an archive's sessions edited: which turns edited a file, its versions, and which turn wrote a line.

Reads the table of edits (`FileEdit`), and for versions the messages with the edits, whose texts are the only record.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import connection
from django.db.models import Count, Max, Q, QuerySet, TextField, Value
from django.db.models.functions import Concat

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.conversations.messages.edits import Edit, edits_of, path_in_project
from convmemory.conversations.messages.file_versions import Line, Version, carried, versions_of
from convmemory.conversations.messages.outcomes import Outcome
from convmemory.conversations.messages.parts import ToolCallPart, part_from_json
from convmemory.conversations.models import Conversation, FileEdit, Message
from convmemory.conversations.names import with_known_names
from convmemory.conversations.reading import visible_conversations
from convmemory.core.sql import load_sql
from convmemory.core.text import one_line, storable
from convmemory.push.repositories import Repository, folder_key, is_in, parted, spelled

MAX_EDITS = 400  # the newest ones of a file that are read
MAX_CHARS = 20_000_000  # of their messages
MAX_TURNS = 200
MAX_PATHS = 20
QUESTION_CHARS = 200
CHECKED_AT_ONCE = 50
NOT_WRITTEN = (
    "No archived edit wrote this line: it was there before the first one, or was edited outside of what is archived."
)
OLDER_LEFT_OUT = "Only the newest edits were read."


@dataclass(frozen=True, slots=True)
class FileTurn:
    """A turn that edited a file, with its question and its outcome."""

    conversation_id: int
    turn_number: int
    title: str
    agent: str
    project: str
    worktree: str
    created_at: datetime
    question: str = ""
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome.to_json(), "url": self.url}


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file that turns edited, with their number and the last of them."""

    path: str
    turns: int
    edited_at: datetime
    conversation_id: int
    turn_number: int


def files_in(
    edits: QuerySet[FileEdit], *, contains: str = "", limit: int, offset: int = 0
) -> tuple[list[FileRow], int | None]:
    """Return files, the last edited first, and the offset of the following ones. One query."""
    if contains:
        edits = edits.filter(path__icontains=storable(contains))
    turn = Concat("conversation_id", Value(" "), "turn_number", output_field=TextField())
    order = ("-created_at", "-pk")
    grouped = edits.order_by().values("path").annotate(
        turns=Count(turn, distinct=True),
        edited_at=Max("created_at"),
        conversations=ArrayAgg("conversation_id", order_by=order),
        numbers=ArrayAgg("turn_number", order_by=order),
        latest=Max("pk"),
    )  # fmt: skip
    rows = list(grouped.order_by("-edited_at", "-latest")[offset : offset + limit + 1])
    files = [
        FileRow(row["path"], row["turns"], row["edited_at"], row["conversations"][0], row["numbers"][0])
        for row in rows[:limit]
    ]
    return files, offset + limit if len(rows) > limit else None


@dataclass(frozen=True, slots=True)
class FileHistory:
    """A file of a project: the turns that edited it, newest first. `others` are further paths that were meant."""

    path: str
    turns: tuple[FileTurn, ...] = ()
    others: tuple[str, ...] = ()
    edits: tuple[FileEdit, ...] = ()


def history_of(*, caller: Caller, file: str, project: str = "", repository: Repository | None = None) -> FileHistory:
    """Return the turns that edited a file, which is named by its path, or by the end of it. Six to ten queries."""
    roots = tuple(filter(None, ((repository.root, repository.main) if repository else ()) + parted(project)[::-1]))
    path = path_in_project(storable(file.strip()), *roots)
    return history_in(caller, edits_in_project(caller, project, repository), path, roots)


def history_in(caller: Caller, edits: QuerySet[FileEdit], path: str, roots: Sequence[str] = ()) -> FileHistory:
    """Return the turns with some of these edits of a file, whose path is seen from one of the roots. Five queries."""
    of_name = edits.filter(name=path.rpartition("/")[2])
    stored = of_name.order_by().values_list("path", "conversation_id").distinct()[:MAX_EDITS]
    seen = _seen_from_roots(caller, list(stored), roots)
    paths = matching_paths(path, seen)
    if not paths:
        return FileHistory(path)
    rows = tuple(of_name.filter(seen[paths[0]]).order_by("-created_at", "-pk")[:MAX_EDITS])
    return FileHistory(paths[0], turns_of(caller, rows), tuple(paths[1:MAX_PATHS]), rows)


def _seen_from_roots(caller: Caller, stored: Sequence[tuple[str, int]], roots: Sequence[str]) -> dict[str, Q]:
    """Return the condition of the edits of each file by its path in its repository; two queries.

    A session that began in a sub-folder stores paths as seen from there.
    """
    of_caller = Conversation.objects.filter(archive_id=caller.archive_id)
    sessions = of_caller.filter(pk__in={conversation for _, conversation in stored}).values_list(
        "pk", "project", "worktree", "repository"
    )
    homes = {pk: (project, worktree, repository) for pk, project, worktree, repository in sessions}
    identities = {repository for _, _, repository in homes.values()} - {""}
    folders: dict[str, list[str]] = {}
    for repository, project in (
        of_caller.filter(repository__in=identities).values_list("repository", "project").distinct()
    ):
        folders.setdefault(repository, []).append(project)
    seen: dict[str, Q] = {}
    for path, conversation in stored:
        project, worktree, repository = homes.get(conversation, ("", "", ""))
        around = (*roots, *folders.get(repository, ()))
        from_root = path if worktree else path_in_repository(path, project, repository, around)
        seen[from_root] = seen.get(from_root, Q()) | Q(path=path, conversation_id=conversation)
    return seen


def path_in_repository(path: str, folder: str, repository: str, folders: Iterable[str]) -> str:
    """Return a path that is seen from a session's folder as it is seen from its repository's root, as far as known.

    The root is the outermost of the folders around the session's, else the part of it with the repository's name.
    """
    key = folder_key(folder)
    root = min((each for each in folders if each and is_in(key, folder_key(each))), key=len, default=folder)
    parts = spelled(folder).split("/")
    name = repository.rpartition("/")[2]
    if folder_key(root) == key and name in parts:
        root = "/".join(parts[: parts.index(name) + 1])
    return path_in_project(path if path.startswith("/") else f"{spelled(folder)}/{path}", root) if root else path


def edits_in_project(caller: Caller, project: str, repository: Repository | None = None) -> QuerySet[FileEdit]:
    """Return the caller's edits in conversations of a project; without a name, of all of them."""
    filters = with_known_names(caller.archive_id, Filters(project=project, repository=repository, archived=None))
    conversations = visible_conversations(caller, filters).order_by().values("pk")
    return FileEdit.objects.filter(archive_id=caller.archive_id, conversation_id__in=conversations)


def matching_paths(path: str, stored: Iterable[str]) -> list[str]:
    """Return the stored paths that a path means: the same one, else those of which one ends with the other. Pure."""
    paths = sorted(stored, key=lambda each: (each != path, len(each), each))
    if paths[:1] == [path]:
        return paths[:1]
    return [each for each in paths if each.endswith(f"/{path}") or path.endswith(f"/{each}")]


def turns_of(caller: Caller, edits: Sequence[FileEdit]) -> tuple[FileTurn, ...]:
    """Return the turns of edits, in their order, each once. One query."""
    at: dict[tuple[int, int], datetime] = {}
    for edit in edits:
        at.setdefault((edit.conversation_id, edit.turn_number), edit.created_at)
    turns = turns_with_outcomes(caller, list(at)[:MAX_TURNS])
    return tuple(replace(turns[key], created_at=edited_at) for key, edited_at in at.items() if key in turns)


def turns_with_outcomes(caller: Caller, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], FileTurn]:
    """Return turns of the caller by conversation and number. One query."""
    conversations, turns = [key[0] for key in keys], [key[1] for key in keys]
    parameters: dict[str, Any] = {"owner": caller.archive_id, "conversations": conversations, "turns": turns}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "turns_with_outcomes"), parameters)
        return {
            (row[0], row[1]): FileTurn(
                *(*row[:7], one_line(row[7], QUESTION_CHARS), Outcome.from_json(json.loads(row[8] or "null")))
            )
            for row in cursor.fetchall()
        }


@dataclass(frozen=True, slots=True)
class FileVersions:
    """The versions of a file, oldest first, each with the turn that wrote it. `is_cut` says that older ones exist."""

    versions: tuple[Version, ...]
    turns: tuple[FileTurn, ...]
    is_cut: bool = False

    def turn(self, number: int | None) -> FileTurn | None:
        return None if number is None else self.turns[number]


def versions_of_history(*, caller: Caller, history: FileHistory) -> FileVersions:
    """Return the versions of a file, from the messages with its edits. One query."""
    number_of = {
        (turn.conversation_id, turn.turn_number): number for number, turn in enumerate(reversed(history.turns))
    }
    edits = [edit for edit in history.edits if (edit.conversation_id, edit.turn_number) in number_of]
    parts, is_cut = _parts_of(caller, edits)
    read: list[tuple[int, Edit]] = []
    for edit in reversed(edits):
        call = parts.get((edit.message_id, edit.part))
        if call is not None:
            number = number_of[edit.conversation_id, edit.turn_number]
            turn = history.turns[-1 - number]
            read += [
                (number, each) for each in edits_of(call) if is_at(each.path, edit.path, turn.worktree, turn.project)
            ]
    versions = versions_of(read)
    is_cut = is_cut or len(history.edits) >= MAX_EDITS or len(history.turns) >= MAX_TURNS
    return FileVersions(tuple(versions), tuple(reversed(history.turns)), is_cut)


def is_at(path: str, stored: str, *folders: str) -> bool:
    """Return whether an edit's path is the stored one; that of a renamed project ends with it. Pure."""
    seen = path_in_project(path, *folders)
    return seen == stored or (seen.startswith("/") and seen.endswith(f"/{stored}"))


def _parts_of(caller: Caller, edits: Sequence[FileEdit]) -> tuple[dict[tuple[int, int], ToolCallPart], bool]:
    """Return the calls with these edits, newest first, by message and part, and whether some were left out."""
    needed: dict[int, list[int]] = {}
    for edit in edits:
        needed.setdefault(edit.message_id, []).append(edit.part)
    parts: dict[tuple[int, int], ToolCallPart] = {}
    rows = Message.objects.filter(archive_id=caller.archive_id, pk__in=needed).order_by("-created_at", "-pk")
    size = 0
    for pk, values in rows.values_list("pk", "parts").iterator(chunk_size=CHECKED_AT_ONCE):
        for index in needed[pk]:
            part = part_from_json(values[index]) if index < len(values) else None
            if isinstance(part, ToolCallPart):
                parts[pk, index] = part
                size += sum(len(str(value)) for value in part.input.values())
        if size > MAX_CHARS:
            return parts, True
    return parts, False


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """A line of a file, and the turn that wrote it; None if no archived edit did."""

    text: str
    turn: FileTurn | None


def origins_of(versions: FileVersions, *, text: str = "", line: int | None = None) -> list[LineOrigin]:
    """Return which turns wrote lines: the lines of `text`, the number `line` of `text` as the file, or of the newest
    version if that is known as a whole. A line that occurs several times has the newest turn that wrote it.
    """
    if not versions.versions:
        return []
    newest = versions.versions[-1]
    asked = text.removesuffix("\n").split("\n")
    if line is not None and (len(asked) > 1 or not text):
        lines = carried(newest.lines, asked, None) if text else newest.lines if newest.is_whole else []
        lines = [lines[line - 1]] if 0 < line <= len(lines) else []
    else:
        lines = carried(newest.lines, asked, None)
    return [LineOrigin(each.text or "", versions.turn(_version_of(each, versions))) for each in lines]


def _version_of(line: Line, versions: FileVersions) -> int | None:
    """Return the version that wrote a line; the newest with a line of the same text if its own place is not known."""
    if line.version is not None or not (line.text or "").strip():
        return line.version
    for version in reversed(versions.versions):
        same = {each.version for each in version.lines if each.text and each.text.strip() == (line.text or "").strip()}
        written = [number for number in same if number is not None]
        if written:
            return max(written)
        if same:
            return None
    return None


@dataclass(frozen=True, slots=True)
class Why:
    """Why a file, or some lines of it, are as they are."""

    history: FileHistory
    lines: tuple[LineOrigin, ...] = ()
    note: str = ""


def why(
    *,
    caller: Caller,
    file: str,
    project: str = "",
    repository: Repository | None = None,
    line: int | None = None,
    text: str = "",
) -> Why:
    """Return the turns that edited a file, and with a line or a text which turn wrote it, as far as edits say it."""
    history = history_of(caller=caller, file=file, project=project, repository=repository)
    if not history.turns:
        return Why(history, note=f"No archived session edited {history.path}.")
    if line is None and not text:
        return Why(history)
    versions = versions_of_history(caller=caller, history=history)
    lines = origins_of(versions, text=storable(text), line=line)
    notes = []
    if not lines:
        notes.append("The edits do not show the whole file: send the line's text, too.")
    elif any(each.turn is None and each.text.strip() for each in lines):
        notes.append(NOT_WRITTEN)
    if any(version.was_changed_outside for version in versions.versions):
        notes.append("Between these turns the file was also edited outside of what is archived.")
    if versions.is_cut:
        notes.append(OLDER_LEFT_OUT)
    return Why(history, tuple(lines), " ".join(notes))
