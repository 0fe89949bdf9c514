"""Defines an importer, what it reads from, and the report it fills in.

An importer declares the files that it can read (`reads`), declines a source or scores it (`sniff`), then streams its
conversations (`parse`). docs/adding-a-format.md walks through one.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from convmemory.conversations.importers.lines import JsonObject, objects_of_line, open_transcript, unreadable
from convmemory.conversations.importers.sqlite import SQLITE_START, SharedDatabase
from convmemory.conversations.importers.values import time_of
from convmemory.conversations.messages.drafts import ConversationDraft

# Enough for every importer to recognise its format.
HEAD_BYTES = 64 * 1024
MAX_NAME_CHARS = 4_000
MAX_STORED_ISSUES = 50  # of each kind per file; the counts include the others
CSV = ".csv"
JSON_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})
_DATE = re.compile(r"(?<!\d)(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)(?!\d)")
_COPY_NUMBER = re.compile(r" ?\(\d{1,3}\)$")

_VERSION_NUMBER = re.compile(r"\d{1,9}")
_MAX_VERSION_CHARS = 60
_VERSION_PARTS = 3


@dataclass(frozen=True, slots=True)
class Reads:
    """The files and folders that are offered to an importer.

    `suffixes` are ends of file names, in lower case; a hidden file needs its whole name there. With `folders`, whole
    folders are offered too; `folder_entries` are the files that belong to a folder that the importer reads, None for
    all.
    """

    suffixes: frozenset[str] = JSON_SUFFIXES
    folders: bool = False
    folder_entries: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The newest version of a program (or month of a service's exports) whose files an importer was tested with."""

    program: str
    version: str

    def __str__(self) -> str:
        return f"{self.program} {self.version}"


@dataclass(frozen=True)
class Source:
    """A transcript to read: a file or a folder. `label` is its name in reports."""

    path: Path
    label: str = ""

    @cached_property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @cached_property
    def plain_name(self) -> str:
        """The file's name in lower case, without the number that a browser adds: `user.json` for `User (2).json`."""
        name = self.path.name.lower()[:MAX_NAME_CHARS]
        stem, dot, ending = name.rpartition(".")
        return _COPY_NUMBER.sub("", stem) + dot + ending

    @cached_property
    def written_at(self) -> datetime | None:
        """The time at which the file, or a folder's newest file, was last written, or the date in its name.

        None if neither is known, as for an upload. Raises: InvalidInput.
        """
        try:
            files = [path for path in self.path.iterdir() if path.is_file()] if self.is_folder else [self.path]
            modified = time_of(max((path.stat().st_mtime for path in files), default=None))
            dated = _DATE.search(self.path.name[:MAX_NAME_CHARS])
            return modified or (time_of("-".join(dated.groups())) if dated else None)
        except OSError as error:
            raise unreadable(self.path, error) from error

    @cached_property
    def head(self) -> bytes:
        """The first 64 KB of the (decompressed) file, or of a folder's `transcript.jsonl`. Raises: InvalidInput."""
        path = self.path / "transcript.jsonl" if self.is_folder else self.path
        try:
            if self.is_folder and not path.exists():
                return b""
            if not stat.S_ISREG(path.stat().st_mode):
                return b""
            with open_transcript(path) as file:
                return file.read(HEAD_BYTES)
        except OSError as error:
            raise unreadable(path, error) from error

    @property
    def is_blank(self) -> bool:
        return not self.head.strip(b" \t\r\n\0")

    @cached_property
    def head_objects(self) -> tuple[JsonObject, ...]:
        """The JSON objects on the lines of `head` that contain nothing else."""
        lines = self.head.split(b"\n")
        if len(self.head) == HEAD_BYTES:
            lines.pop()  # cut off
        faulty: set[int] = set()

        def on_issue(number: int, reason: str, *, kept: bool) -> None:
            if not kept:
                faulty.add(number)

        objects: list[JsonObject] = []
        for number, line in enumerate(lines, 1):
            objects.extend(objects_of_line(line, number=number, on_issue=on_issue))
        return tuple(item for item in objects if item.number not in faulty)

    @property
    def is_sqlite(self) -> bool:
        """True if the file is an SQLite database."""
        return self.head.startswith(SQLITE_START)

    @cached_property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The columns of each table of an SQLite database. Raises: InvalidInput if it cannot be opened."""
        with self.database.opened() as database:
            return database.tables

    @cached_property
    def database(self) -> SharedDatabase:
        """The SQLite database, opened at its first use."""
        return SharedDatabase(self.path)

    @cached_property
    def is_one_long_line(self) -> bool:
        """True if the first line is longer than `head`, so that it cannot be parsed."""
        return len(self.head) == HEAD_BYTES and b"\n" not in self.head.strip()


def begins_like_json(head: bytes) -> bool:
    """Return whether a file with this beginning can be a JSON document or JSON lines."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith((b"[", b"{"))


@dataclass(frozen=True, slots=True)
class Issue:
    """A part of a file that could not be read as it is; `kept` if it was repaired instead of skipped."""

    place: str
    reason: str
    kept: bool = False


@dataclass(slots=True)
class FileReport:
    """The outcome of importing one source. Counts are filled in by `importing/runner.py`."""

    path: str
    format: str = ""
    conversations: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    turns: int = 0
    events: int = 0
    skipped: int = 0
    repaired: int = 0
    issues: list[Issue] = field(default_factory=list)
    superseded: int = 0
    hidden_keys: int = 0
    unknown_types: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_stored: int = 0  # conversations
    left_over: list[str] = field(default_factory=list)  # the names of the first of those
    proposal: dict[str, Any] | None = None  # what a mapping finds in a file of an unknown format

    @property
    def messages(self) -> int:
        return self.added + self.updated + self.unchanged

    @property
    def is_refused(self) -> bool:
        """True if nothing was imported although the source has content."""
        return not (self.conversations or self.not_stored) and bool(self.errors or self.skipped)

    @property
    def passed_over(self) -> int:
        """The number of entries that were not read, or not as what they are."""
        return self.skipped + sum(self.unknown_types.values())

    def skip(self, position: int | str, reason: str) -> None:
        """Count a skipped part; only the positions of the first ones are stored."""
        self._issue(position, reason, kept=False)

    def leave_over(self, name: str) -> None:
        """Count a conversation that was not stored; only the first ones are named."""
        self.not_stored += 1
        if len(self.left_over) < MAX_STORED_ISSUES:
            self.left_over.append(name)

    def repair(self, position: int | str, reason: str) -> None:
        """Count a part that was repaired to be read."""
        self._issue(position, reason, kept=True)

    def line_issue(self, number: int | str, reason: str, *, kept: bool) -> None:
        """Call `skip` or `repair`; has the signature that `lines.read_objects` calls."""
        (self.repair if kept else self.skip)(number, reason)

    def unknown(self, kind: str) -> None:
        """Count a type that the format's reader does not know."""
        kind = kind[:80]
        if kind not in self.unknown_types and len(self.unknown_types) >= MAX_STORED_ISSUES:
            kind = "(others)"
        self.unknown_types[kind] = self.unknown_types.get(kind, 0) + 1

    def note(self, text: str) -> None:
        """Add a note about the whole source; only the first ones are stored."""
        if len(self.notes) < MAX_STORED_ISSUES:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Add a warning, once each; pages show warnings prominently."""
        if text not in self.warnings and len(self.warnings) < MAX_STORED_ISSUES:
            self.warnings.append(text)

    def written_by(self, version: str, checked: Checked) -> None:
        """Warn if a newer version wrote the source than the importer was checked against."""
        if is_newer(version, checked.version):
            self.warn(
                f"Written by {checked.program} {version[:40]}, which is newer than this importer knows "
                f"({checked.version}): look at what was skipped, and update convmemory."
            )

    def _issue(self, position: int | str, reason: str, *, kept: bool) -> None:
        if kept:
            self.repaired += 1
        else:
            self.skipped += 1
        if len(self.issues) < MAX_STORED_ISSUES:
            self.issues.append(Issue(place=f"{self.path}:{position}", reason=reason, kept=kept))

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "messages": self.messages,
            "refused": self.is_refused,
            "passed_over": self.passed_over,
        }


class Importer(Protocol):
    """A reader of one format."""

    @property
    def name(self) -> str:
        """The format's name in reports and commands, and the source of its conversations."""

    @property
    def checked(self) -> Checked:
        """The version that the importer was last tested with."""

    @property
    def reads(self) -> Reads:
        """The files and folders that are offered to it."""

    def sniff(self, source: Source) -> int | None:
        """Return a score up to 100 for reading the source; None declines.

        Raises: InvalidInput if the source cannot be opened.
        """

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """Yield the source's conversations, parents first. Messages are read while they are consumed.

        Raises: InvalidInput, also while messages are consumed.
        """


def is_newer(version: str, reference: str) -> bool:
    """Return whether a version ("0.153.0-alpha.2", "2026-11") is newer than `reference`.

    False if either is not a version.
    """
    numbers = _numbers(version), _numbers(reference)
    return all(numbers) and numbers[0] > numbers[1]


def _numbers(version: str) -> list[int]:
    return [int(match[0]) for match in _VERSION_NUMBER.finditer(version[:_MAX_VERSION_CHARS])][:_VERSION_PARTS]
