"""What an importer is, what it reads from, and the report it fills in.

An importer declines a source or scores it (`sniff`), then streams its conversations (`parse`).
"""

import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from convmemory.conversations.drafts import ConversationDraft
from convmemory.conversations.importers.lines import JsonObject, objects_of_line, unreadable

HEAD_BYTES = 64 * 1024
MAX_STORED_ISSUES = 50


@dataclass(frozen=True)
class Source:
    """A transcript to read: a file, or an Amplifier session folder. `label` is what reports call it."""

    path: Path
    label: str = ""

    @cached_property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @cached_property
    def head(self) -> bytes:
        """The first 64 KB of the file, or of a folder's `transcript.jsonl`. Raises: InvalidInput."""
        path = self.path / "transcript.jsonl" if self.is_folder else self.path
        try:
            if self.is_folder and not path.exists():
                return b""
            if not stat.S_ISREG(path.stat().st_mode):
                return b""
            with path.open("rb") as file:
                return file.read(HEAD_BYTES)
        except OSError as error:
            raise unreadable(path, error) from error

    @cached_property
    def head_objects(self) -> tuple[JsonObject, ...]:
        """The JSON objects on those lines of `head` that hold nothing else."""
        lines = self.head.split(b"\n")
        if len(self.head) == HEAD_BYTES:
            lines.pop()  # cut off
        faulty: set[int] = set()

        def on_issue(number: int, reason: str, *, kept: bool) -> None:
            if not kept:
                faulty.add(number)

        found: list[JsonObject] = []
        for number, line in enumerate(lines, 1):
            found.extend(objects_of_line(line, number=number, on_issue=on_issue))
        return tuple(item for item in found if item.number not in faulty)

    @cached_property
    def is_one_long_line(self) -> bool:
        """Whether the first line is longer than `head`, so that it cannot be looked into."""
        return len(self.head) == HEAD_BYTES and b"\n" not in self.head.strip()


@dataclass(frozen=True, slots=True)
class Issue:
    """A place that could not be read as it stands; `kept` where it was repaired instead of skipped."""

    place: str
    reason: str
    kept: bool = False


@dataclass(slots=True)
class FileReport:
    """What the import of one source came to. Counts are filled in by `import_runner.py`."""

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
    unknown_types: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return self.added + self.updated + self.unchanged

    @property
    def is_refused(self) -> bool:
        """Whether nothing of it was taken though there was something to take."""
        return not self.conversations and bool(self.errors or self.skipped)

    def skip(self, place: int | str, reason: str) -> None:
        """Count a place that was left out; only the first ones are kept by name."""
        self._issue(place, reason, kept=False)

    def line_issue(self, number: int, reason: str, *, kept: bool) -> None:
        """`skip`, or a repair, in the form that `lines.read_objects` calls."""
        self._issue(number, reason, kept=kept)

    def unknown(self, kind: str) -> None:
        """Count a type that the format's reader does not know."""
        kind = kind[:80]
        if kind not in self.unknown_types and len(self.unknown_types) >= MAX_STORED_ISSUES:
            kind = "(others)"
        self.unknown_types[kind] = self.unknown_types.get(kind, 0) + 1

    def note(self, text: str) -> None:
        """Say something about the whole source; only the first notes are kept."""
        if len(self.notes) < MAX_STORED_ISSUES:
            self.notes.append(text)

    def _issue(self, place: int | str, reason: str, *, kept: bool) -> None:
        if kept:
            self.repaired += 1
        else:
            self.skipped += 1
        if len(self.issues) < MAX_STORED_ISSUES:
            self.issues.append(Issue(place=f"{self.path}:{place}", reason=reason, kept=kept))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "messages": self.messages, "refused": self.is_refused}


class Importer(Protocol):
    """A reader of one format."""

    @property
    def name(self) -> str:
        """What the format is called in reports and commands, and the source of its conversations."""

    def sniff(self, source: Source) -> int | None:
        """How sure the importer is that it can read the source, up to 100; None declines.

        Raises: InvalidInput where the source cannot be opened.
        """

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """The source's conversations, parents first. Messages are read while they are consumed.

        Raises: InvalidInput, also while messages are consumed.
        """
