"""Finds the transcripts under the given paths and, for each, the importer that reads it.

A folder is walked in a fixed order, parents before the conversations they started. What cannot be
read or recognised is handed on with the reason; it never stops the walk.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from convmemory.conversations.importers.amplifier import METADATA, TRANSCRIPT, AmplifierImporter
from convmemory.conversations.importers.amplifier_events import EVENT_FILES
from convmemory.conversations.importers.base import Importer, Source
from convmemory.conversations.importers.claude_code import ClaudeCodeImporter
from convmemory.conversations.importers.foreign import foreign_format
from convmemory.conversations.importers.own_export import ExportImporter
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.core.errors import InvalidInput

AUTO = "auto"
IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (AmplifierImporter(), ClaudeCodeImporter(), ExportImporter(), PlainImporter())
}
FORMATS = (AUTO, *IMPORTERS)
TRANSCRIPT_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json"})

_SESSION_FILES = frozenset({TRANSCRIPT, METADATA, *EVENT_FILES, "context-intelligence"})
_PASSED_OVER = (".meta.json", ".backup", ".bak", "~", ".tmp")


@dataclass(frozen=True, slots=True)
class Found:
    """A source with its importer, or without one and the reason why."""

    source: Source
    importer: Importer | None = None
    reason: str = ""


def require_format(format: str) -> None:
    """Raises: InvalidInput where there is no such format."""
    if format not in FORMATS:
        raise InvalidInput(f"Unknown format {format[:40]!r}: give one of {', '.join(FORMATS)}.")


@dataclass(slots=True)
class Walk:
    """One walk over paths. `ignored` counts the files of a folder that no transcript is named like."""

    format: str = AUTO
    ignored: int = 0
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        require_format(self.format)

    def over(self, paths: Iterable[Path], *, root: Path | None = None) -> Iterator[Found]:
        """The sources under `paths`. Labels are relative to `root`, or begin with the path as it was given."""
        for path in paths:
            label = _relative(path, root) if root else str(path)
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                yield Found(Source(path, label), reason="is missing: there is no such file or folder")
                continue
            except OSError as error:
                yield Found(Source(path, label), reason=f"cannot be read: {error.strerror or error}")
                continue
            if stat.S_ISDIR(mode):
                yield from self._folder(path, label)
            elif stat.S_ISREG(mode):
                yield self._named_file(path, label)
            else:
                yield Found(Source(path, label), reason="neither a file nor a folder")

    def _named_file(self, path: Path, label: str) -> Found:
        """A file that was named itself: its format is taken as given, and a session's file stands for its folder."""
        if path.name in _SESSION_FILES and self.format in (AUTO, "amplifier"):
            folder = Source(path.parent, label)
            if _score(IMPORTERS["amplifier"], folder):
                return Found(folder, IMPORTERS["amplifier"])
        source = Source(path, label)
        if self.format in ("claude-code", "convmemory", "plain"):
            return Found(source, IMPORTERS[self.format])
        return self._found(source)

    def _folder(self, path: Path, label: str) -> Iterator[Found]:
        try:
            if not self._first_visit(path):
                return
            entries = sorted(os.scandir(path), key=_order)
        except OSError as error:
            yield Found(Source(path, label), reason=f"cannot be read: {error.strerror or error}")
            return
        passed_over: frozenset[str] = frozenset()
        session = Source(path, label)
        if self.format in (AUTO, "convmemory") and _score(IMPORTERS["convmemory"], session):
            yield Found(session, IMPORTERS["convmemory"])
            return
        if self.format in (AUTO, "amplifier") and _score(IMPORTERS["amplifier"], session):
            yield Found(session, IMPORTERS["amplifier"])
            passed_over = _SESSION_FILES
        folders: list[os.DirEntry[str]] = []
        for entry in entries:
            if entry.name in passed_over or entry.name.startswith(".") or entry.name.endswith(_PASSED_OVER):
                continue
            if _is_folder(entry):
                folders.append(entry)
            else:
                yield from self._listed_file(Path(entry.path), f"{label}/{entry.name}".removeprefix("./"))
        for entry in folders:
            yield from self._folder(Path(entry.path), f"{label}/{entry.name}".removeprefix("./"))

    def _listed_file(self, path: Path, label: str) -> Iterator[Found]:
        try:
            if not stat.S_ISREG(path.stat().st_mode) or path.suffix.lower() not in TRANSCRIPT_SUFFIXES:
                self.ignored += 1
                return
            if self._first_visit(path):
                yield self._found(Source(path, label))
        except OSError as error:
            yield Found(Source(path, label), reason=f"cannot be read: {error.strerror or error}")

    def _first_visit(self, path: Path) -> bool:
        """Whether this file or folder is met for the first time: links can lead in circles."""
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _found(self, source: Source) -> Found:
        tried = IMPORTERS.values() if self.format == AUTO else (IMPORTERS[self.format],)
        try:
            scores = [(score, importer) for importer in tried if (score := importer.sniff(source))]
            if scores:
                return Found(source, max(scores, key=lambda scored: scored[0])[1])
            return Found(source, reason=_why_unclaimed(source, [importer.name for importer in tried]))
        except InvalidInput as error:
            return Found(source, reason=str(error))


def _score(importer: Importer, source: Source) -> int:
    try:
        return importer.sniff(source) or 0
    except InvalidInput:
        return 0


def _why_unclaimed(source: Source, tried: list[str]) -> str:
    if not source.head.strip(b" \t\r\n\0"):
        return "the file is empty"
    foreign = foreign_format(source)
    if foreign:
        return f"{foreign}: not supported yet"
    return f"no known transcript format (tried {', '.join(tried)})"


def _order(entry: os.DirEntry[str]) -> tuple[bool, bool, str]:
    """Parents first: a subagent's file after the sessions, a sub-session's folder after its siblings."""
    return (entry.name.startswith("agent-"), "_" in entry.name and _is_folder(entry), entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _relative(path: Path, root: Path) -> str:
    try:
        return path.relative_to(root).as_posix()
    except ValueError:
        return str(path)
