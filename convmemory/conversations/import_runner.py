"""Imports transcripts: finds them, reads them, stores each conversation, and reports on every file.

One conversation is one transaction; one that fails is reported and the rest goes on. Messages are read before it
begins, all but those of a very long conversation.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import DataError

from convmemory.conversations import ingest
from convmemory.conversations.archives import UnpackLimits, unpack_upload
from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import AUTO, Found, Walk
from convmemory.conversations.importers.values import clean
from convmemory.core.errors import ConvMemoryError

PROGRESS_EVERY = 500
MAX_STORED_ERRORS = 50
MAX_STORED_FILES = 1_000
MAX_STORED_DETAILS = 2_000
READ_AHEAD_MESSAGES = 1_000
READ_AHEAD_BYTES = 16 * 1024**2


@dataclass(slots=True)
class ImportReport:
    """What an import came to, per file and in all. `messages_read` grows while it runs."""

    files: list[FileReport] = field(default_factory=list)
    ignored_files: int = 0
    messages_read: int = 0

    def total(self, name: str) -> int:
        """The sum of one of the files' counts."""
        return sum(getattr(file, name) for file in self.files)

    @property
    def recognised(self) -> int:
        """How many files were read as a transcript without a failure of all they hold."""
        return sum(not file.is_refused for file in self.files if file.format)

    @property
    def refused(self) -> int:
        """How many files hold something of which nothing was taken."""
        return sum(file.is_refused for file in self.files)

    def to_json(self) -> dict[str, Any]:
        names = ("conversations", "messages", "added", "updated", "unchanged", "turns", "events", "skipped")
        return {
            "files": [file.to_json() for file in self.files],
            "ignored_files": self.ignored_files,
            "recognised_files": self.recognised,
            "refused_files": self.refused,
            "total": {name: self.total(name) for name in names},
        }

    def to_stored_json(self) -> dict[str, Any]:
        """The same of the first `MAX_STORED_FILES` files, with places and reasons until there are too many."""
        left = MAX_STORED_DETAILS
        value = self.to_json()
        value["files"] = value["files"][:MAX_STORED_FILES]
        for file in value["files"]:
            for name in ("errors", "notes", "issues"):
                file[name] = file[name][:left]
                left -= len(file[name])
        value["files_left_out"] = len(self.files) - len(value["files"])
        return value


Progress = Callable[[ImportReport], None]
"""Called now and then with the report so far."""


def import_paths(
    *,
    owner: AbstractBaseUser,
    paths: Iterable[Path | str],
    format: str = AUTO,
    progress: Progress | None = None,
    root: Path | None = None,
) -> ImportReport:
    """Import every transcript under `paths` for `owner`; importing again updates and adds, never doubles.

    Labels in the report are relative to `root` where it is given. Raises: InvalidInput on an unknown
    format only.
    """
    walk = Walk(format=format)
    report = ImportReport()
    tell = progress or (lambda _: None)
    for found in walk.over([Path(path) for path in paths], root=root):
        file = FileReport(path=clean(found.source.label or str(found.source.path)))
        report.files.append(file)
        _import_file(owner, found, file, report, tell)
        tell(report)
    report.ignored_files = walk.ignored
    ingest.link_children(owner=owner)
    return report


def import_upload(
    *,
    owner: AbstractBaseUser,
    file: IO[bytes],
    name: str,
    folder: Path,
    format: str = AUTO,
    limits: UnpackLimits | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Import an uploaded transcript or archive, unpacking it into `folder`. Raises: InvalidInput, TooLarge."""
    unpacked = unpack_upload(file, name, folder, limits or UnpackLimits())
    paths = [unpacked.root]
    if unpacked.files == 1:
        paths = [path for path in unpacked.root.rglob("*") if path.is_file()]
    report = import_paths(owner=owner, paths=paths, format=format, root=unpacked.root, progress=progress)
    if unpacked.notes:
        report.files.insert(0, FileReport(path=name, errors=unpacked.notes))
    return report


def upload_prefix(owner_id: int) -> str:
    """How the names of the temporary folders of somebody's uploads begin."""
    return f"convmemory-upload-{owner_id}-"


def _import_file(owner: AbstractBaseUser, found: Found, file: FileReport, report: ImportReport, tell: Progress) -> None:
    if found.importer is None:
        _failed(file, found.reason)
        return
    file.format = found.importer.name
    drafts = found.importer.parse(found.source, file)
    while True:
        try:
            draft = next(drafts, None)
        except (ConvMemoryError, OSError) as error:
            _failed(file, str(error))
            return
        if draft is None:
            return
        _import_conversation(owner, draft, file, report, tell)


def _import_conversation(
    owner: AbstractBaseUser, draft: ConversationDraft, file: FileReport, report: ImportReport, tell: Progress
) -> None:
    try:
        messages = _counted(draft.messages, report, tell)
        first = _read_ahead(messages)
        if not first and draft.events == ():
            file.note(f"{draft.source_id}: no message to store")
            return
        result = ingest.sync_conversation(owner=owner, draft=replace(draft, messages=chain(first, messages)))
    except (ConvMemoryError, DataError, OSError) as error:
        _failed(file, f"{draft.source_id}: {' '.join(str(error).split())}")
        return
    file.conversations += 1
    file.added += result.added
    file.updated += result.updated
    file.unchanged += result.unchanged
    file.turns += result.turns
    file.events += result.events_added


def _read_ahead(messages: Iterator[MessageDraft]) -> list[MessageDraft]:
    """The first messages, so that a transaction does not wait for what is still to be parsed."""
    read: list[MessageDraft] = []
    size = 0
    for message in messages:
        read.append(message)
        size += message.weight
        if len(read) == READ_AHEAD_MESSAGES or size > READ_AHEAD_BYTES:
            break
    return read


def _counted(messages: Iterable[MessageDraft], report: ImportReport, tell: Progress) -> Iterator[MessageDraft]:
    for message in messages:
        report.messages_read += 1
        if report.messages_read % PROGRESS_EVERY == 0:
            tell(report)
        yield message


def _failed(file: FileReport, reason: str) -> None:
    if len(file.errors) < MAX_STORED_ERRORS:
        file.errors.append(clean(reason))
