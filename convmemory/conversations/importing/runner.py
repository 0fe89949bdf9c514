"""Imports transcripts: finds them, reads them, stores each conversation, and reports on every file.

Each conversation is stored in a transaction of its own; if one fails, it is reported and the others are imported. The
messages are read before the transaction begins, except for the rest of a very long conversation.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from django.db import DataError, connection, transaction

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import CSV, JSON_SUFFIXES, Checked, FileReport, Importer, Source
from convmemory.conversations.importers.detect import AUTO, ZIP_START, DetectedSource, Walk
from convmemory.conversations.importers.mapping import importer_of, proposal
from convmemory.conversations.importers.values import clean
from convmemory.conversations.importing.archives import (
    MAX_NOTES,
    Unpacked,
    UnpackLimits,
    size_of,
    unpack_upload,
)
from convmemory.conversations.importing.links import link_children
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.ingest import without_copies
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, spoken_text
from convmemory.conversations.messages.thinking import thinking_apart
from convmemory.conversations.models import Conversation
from convmemory.core.errors import ConvMemoryError, DatabaseUnavailable, InTrash, InvalidInput, StorageFull, TooLarge
from convmemory.core.files.decoding import DecodedBytes, decoding
from convmemory.core.files.work_folders import work_folder
from convmemory.core.processes.child_limits import DISK_FULL
from convmemory.core.text import cut
from convmemory.push.repositories import FOLDERS_FILE, Repository, among, folders_of_text, parted

PROGRESS_EVERY = 500  # messages
MAX_STORED_ERRORS = 50
MAX_STORED_FILES = 1_000
MAX_STORED_DETAILS = 2_000
SHOWN_TYPES = 10
DAMAGED_ARCHIVE = "a damaged archive: download it again, or pack it again"
# Read before the transaction begins, so that no lock is held while a file is parsed.
READ_AHEAD_MESSAGES = 1_000
READ_AHEAD_BYTES = 16 * 1024**2
MAX_PROPOSALS = 5  # of mappings in one import
NAME_CHARS = 80
NAMING_MESSAGES = 10  # among which the first question is looked for
MAX_FOLDERS_BYTES = 4 * 1024**2
MAX_HELD = 100  # conversations without words of a person or a model, until the file is taken for what it looks like


@dataclass(slots=True)
class ImportReport:
    """The outcome of an import, per file and in total. `messages_read` grows while it runs.

    `is_cut_short` says that the owner's storage was full before everything was stored; the rest is only counted.
    """

    files: list[FileReport] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)  # files of folders by ending
    messages_read: int = 0
    is_cut_short: bool = False

    def total(self, name: str) -> int:
        """Return the sum of one of the files' counts."""
        return sum(getattr(file, name) for file in self.files)

    @property
    def ignored_files(self) -> int:
        """The number of files in folders that hold no transcript."""
        return sum(self.ignored.values())

    @property
    def ignored_by_ending(self) -> str:
        """The ignored files in words: "3 .png, 1 without an ending"."""
        listed = sorted(self.ignored.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count} {ending or 'without an ending'}" for ending, count in listed)

    @property
    def recognised(self) -> int:
        """The number of files that were recognised and not refused."""
        files = (file for file in self.files if file.format and not file.is_refused)
        return sum(bool(file.conversations or not file.not_stored) for file in files)

    @property
    def refused(self) -> int:
        """The number of files from which nothing was imported although they have content."""
        return sum(file.is_refused for file in self.files)

    def to_json(self) -> dict[str, Any]:
        names = (
            *("conversations", "messages", "added", "updated", "unchanged", "turns", "events", "skipped", "superseded"),
            *("hidden_keys", "passed_over", "not_stored"),
        )
        return {
            "files": [file.to_json() for file in self.files],
            "ignored_files": self.ignored_files,
            "ignored_by_ending": self.ignored_by_ending,
            "recognised_files": self.recognised,
            "refused_files": self.refused,
            "storage_full": self.is_cut_short,
            "total": {name: self.total(name) for name in names},
        }

    def to_stored_json(self) -> dict[str, Any]:
        """Return `to_json` for the first `MAX_STORED_FILES` files, with a limited number of places and reasons."""
        # The report is one JSON column, which a page reads as a whole.
        left = MAX_STORED_DETAILS
        value = self.to_json()
        value["files"] = value["files"][:MAX_STORED_FILES]
        for file in value["files"]:
            for name in ("errors", "warnings", "notes", "issues", "left_over"):
                file[name] = file[name][:left]
                left -= len(file[name])
        value["files_left_out"] = len(self.files) - len(value["files"])
        return value


Progress = Callable[[ImportReport], None]
"""Called from time to time with the report so far."""

OnStored = Callable[[FileReport, ingest.SyncResult], None]
"""Called for each conversation in the transaction that stores it."""


def ignore(file: FileReport, result: ingest.SyncResult) -> None:
    """Do nothing, for imports without links."""


ReasonToLeaveOut = Callable[[ConversationDraft], str]
"""Returns why a conversation is not imported, or an empty string."""


def keep_all(draft: ConversationDraft) -> str:
    """Leave out nothing, for imports without rules."""
    return ""


RepositoryOf = Callable[[str], Repository | None]
"""Returns the repository of a folder; None if that is not known."""


def unknown_repository(folder: str) -> Repository | None:
    """Return nothing, for imports from elsewhere."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The constants of one import."""

    caller: Caller
    report: ImportReport
    progress: Progress
    on_stored: OnStored
    mapping: Mapping[str, Any] | None = None
    proposes: bool = False
    is_preview: bool = False
    reason_to_leave_out: ReasonToLeaveOut = keep_all
    repository_of: RepositoryOf = unknown_repository
    stored: set[int] = field(default_factory=set)  # the conversations of this import


def import_paths(
    *,
    caller: Caller,
    paths: Iterable[Path | str],
    format: str = AUTO,
    progress: Progress | None = None,
    on_stored: OnStored = ignore,
    root: Path | None = None,
    importer: Importer | None = None,
    mapping: Mapping[str, Any] | None = None,
    proposes: bool = False,
    is_preview: bool = False,
    reason_to_leave_out: ReasonToLeaveOut = keep_all,
    repository_of: RepositoryOf = unknown_repository,
) -> ImportReport:
    """Import every transcript under `paths` for `owner`; importing again updates and adds, without duplicates.

    Labels in the report are relative to `root` if it is given. An `importer` that is given reads every file, a
    `mapping` those that no importer reads. With `proposes`, the report says what a mapping would find in those; a
    preview does nothing else.

    Raises: InvalidInput on an unknown format only.
    """
    walk = Walk(format=format)
    report = ImportReport()
    run = _Run(
        caller, report, progress or (lambda _: None), on_stored, mapping, proposes, is_preview, reason_to_leave_out,
        repository_of,
    )  # fmt: skip
    for detected in _sources(walk, [Path(path) for path in paths], root, report, caller.archive_id):
        file = FileReport(path=clean(detected.source.label or str(detected.source.path)))
        report.files.append(file)
        _import_file(run, detected if importer is None else DetectedSource(detected.source, (importer,)), file)
        run.progress(report)
    report.ignored = dict(walk.ignored)
    # After all files, because a parent can come after its children.
    link_children(caller=caller)
    return report


def import_upload(
    *,
    caller: Caller,
    file: IO[bytes],
    name: str,
    folder: Path,
    format: str = AUTO,
    limits: UnpackLimits | None = None,
    progress: Progress | None = None,
    on_stored: OnStored = ignore,
    mapping: Mapping[str, Any] | None = None,
    is_preview: bool = False,
) -> ImportReport:
    """Import an uploaded transcript or archive, unpacking it into `folder`. Raises: InvalidInput, TooLarge."""
    limits = limits or UnpackLimits()
    decoded = DecodedBytes(size_of(file), limits)
    unpacked = unpack_upload(file, name, folder, limits, decoded)
    paths = [unpacked.root]
    folders = _folders_in(unpacked)
    if unpacked.files == 1:
        # A file that is named itself is tried by every importer, whatever its name.
        paths = [path for path in unpacked.root.rglob("*") if path.is_file()]
    with decoding(decoded):
        report = import_paths(
            caller=caller,
            paths=paths,
            format=format,
            root=unpacked.root,
            progress=progress,
            on_stored=on_stored,
            mapping=mapping,
            proposes=True,
            is_preview=is_preview,
            repository_of=partial(among, folders),
        )
    if unpacked.notes or unpacked.recoded:
        report.files.insert(0, FileReport(path=name, errors=unpacked.notes, notes=unpacked.recoded[:MAX_NOTES]))
    return report


def _folders_in(unpacked: Unpacked) -> dict[str, Repository]:
    """Take out the file in which a client says which folders are of which repository, and return what it says."""
    path = unpacked.root / FOLDERS_FILE
    if unpacked.files == 1 or not path.is_file():
        return {}
    with path.open("rb") as file:
        text = file.read(MAX_FOLDERS_BYTES).decode("utf-8", "replace")
    path.unlink()
    unpacked.files -= 1
    return folders_of_text(text)


def _sources(
    walk: Walk, paths: Iterable[Path], root: Path | None, report: ImportReport, archive_id: int
) -> Iterator[DetectedSource]:
    """Yield the sources of the walk, with the content of archives.

    The folder of an archive's content exists only until the next source is requested.
    """
    for detected in walk.over(paths, root=root):
        if not detected.is_archive:
            yield detected
            continue
        source = detected.source
        with work_folder("unpacked", archive_id=archive_id) as folder:
            try:
                with source.path.open("rb") as file:
                    unpacked = unpack_upload(file, source.path.name, folder, UnpackLimits())
            except (ConvMemoryError, OSError) as error:
                if isinstance(error, OSError) and error.errno in DISK_FULL:
                    raise
                yield DetectedSource(source, reason=str(error))
                continue
            if notes := [*unpacked.notes, *unpacked.recoded[:MAX_NOTES]]:
                report.files.append(FileReport(path=source.label, notes=notes))
            [*files] = unpacked.root.rglob("*") if unpacked.files == 1 and not source.head.startswith(ZIP_START) else ()
            copy = next((path for path in files if path.is_file()), None)
            if copy:  # of one compressed or recoded file
                modified = source.path.stat().st_mtime
                os.utime(copy, (modified, modified))
            # A walk of its own: the numbers of deleted files, by which it knows what it met, are given again.
            inside = Walk(format=walk.format, ignored=walk.ignored)
            for inner in inside.over([copy or unpacked.root], root=unpacked.root):
                reason = DAMAGED_ARCHIVE if inner.is_archive else inner.reason
                label = source.label if copy or inner.is_archive else f"{source.label}/{inner.source.label}"
                yield replace(inner, source=Source(inner.source.path, label), is_archive=False, reason=reason)


def _import_file(run: _Run, detected: DetectedSource, file: FileReport) -> None:
    """Import the source with the first of its importers that can read it; `file` is the last report of the run."""
    if run.is_preview and detected.importers:
        file.note("its format is known")
        return
    if not detected.importers and run.mapping is not None and not run.is_preview:
        detected = replace(detected, importers=(importer_of(run.mapping),))
    if not detected.importers:
        _failed(file, detected.reason)
        _propose(run, detected.source, file)
        return
    declined: list[FileReport] = []
    for importer in detected.importers:
        attempt = FileReport(path=file.path, format=importer.name)
        read_before = run.report.messages_read
        run.report.files[-1] = attempt
        if _Reading(run, detected.source, importer, attempt).is_read():
            return
        declined.append(attempt)
        run.report.messages_read = read_before
    # The likeliest format's report says most about the file.
    first = run.report.files[-1] = declined[0]
    if not first.errors:
        program = detected.importers[0].checked.program
        owner = f"{program}'" if program.endswith("s") else f"{program}'s"
        shown = program if "'s " in program else f"{owner} format"
        _failed(first, f"looks like {shown}, but nothing in it could be read")
    _propose(run, detected.source, first)


def _propose(run: _Run, source: Source, file: FileReport) -> None:
    """Say in the report what a mapping would find in the file."""
    proposed = sum(earlier.proposal is not None for earlier in run.report.files)
    is_mappable = source.plain_name.endswith((*JSON_SUFFIXES, CSV)) and not source.is_blank
    if run.proposes and proposed < MAX_PROPOSALS and is_mappable:
        try:
            file.proposal = proposal(source.path, run.mapping)
        except (InvalidInput, TooLarge) as error:
            file.note(str(error))


@dataclass(slots=True)
class _Ready:
    """A conversation whose first messages are read. `is_whole` says that there are no others."""

    draft: ConversationDraft
    first: list[MessageDraft]
    rest: Iterator[MessageDraft]
    is_whole: bool

    @property
    def has_words(self) -> bool:
        """True if a person or a model says something in it, or if that is not known yet."""
        return not self.is_whole or self.draft.events != () or any(map(_has_words, self.first))


def _has_words(message: MessageDraft) -> bool:
    documents = any(isinstance(part, AttachmentPart) and part.text for part in message.parts)
    has_text = any(isinstance(part, (TextPart, AttachmentPart)) for part in message.parts)
    return documents or (message.role in ("user", "assistant") and has_text)


@dataclass(slots=True)
class _Reading:
    """One importer's attempt at one source.

    Until a conversation with words of a person or a model is found, conversations are held back: an importer that finds
    none, while there are entries that it cannot read, has declined, and nothing of its attempt is stored.
    """

    run: _Run
    source: Source
    importer: Importer
    file: FileReport
    held: list[_Ready] = field(default_factory=list)
    has_claimed: bool = False
    empty: int = 0  # conversations without a message, each with a note

    def is_read(self) -> bool:
        """Import the source's conversations; False if the importer declined."""
        drafts = self.importer.parse(self.source, self.file)
        while True:
            try:
                draft = next(drafts, None)
            except (ConvMemoryError, OSError) as error:
                _failed(self.file, str(error))
                break
            if draft is None:
                break
            reason = self.run.reason_to_leave_out(draft)
            if reason:
                self.file.note(f"{draft.source_id}: left out: {reason}")
                self.has_claimed = True
                continue
            if _has_fuller_copy(self.run, draft):
                self.file.note(f"{draft.source_id}: is here already, with its answers")
                self.has_claimed = True
                continue
            if self.run.report.is_cut_short:
                self.file.leave_over(_name_of(draft))
                self.has_claimed = True
                continue
            ready = _prepared(self.run, replace(draft, written_at=self.source.written_at, is_of_file=True), self.file)
            if ready is None:
                self.empty += 1
            else:
                self.held.append(ready)
                self.has_claimed = self.has_claimed or ready.has_words or self._holds_much()
            if self.has_claimed:
                self._store_held()
        if self.source.is_sqlite and not (self.held or self.has_claimed or self.file.notes):
            self.file.note("a database without any conversation")
        if not self.has_claimed and self._has_declined():
            return False
        self._store_held()
        _warn_of_unknown_types(self.importer.checked, self.file)
        return True

    def _holds_much(self) -> bool:
        weight = sum(message.weight for ready in self.held for message in ready.first)
        return len(self.held) >= MAX_HELD or weight > READ_AHEAD_BYTES

    def _has_declined(self) -> bool:
        """Return whether entries remain unread. An importer's note explains why a source holds no conversation."""
        if self.held:
            return bool(self.file.unknown_types)
        is_explained = len(self.file.notes) > self.empty
        return bool(self.file.unknown_types or self.file.skipped or self.file.errors) or not is_explained

    def _store_held(self) -> None:
        for ready in self.held:
            _store(self.run, ready, self.file)
        self.held.clear()


def _prepared(run: _Run, draft: ConversationDraft, file: FileReport) -> _Ready | None:
    """Return the conversation with its first messages read; None if it has nothing to store."""
    try:
        if draft.is_fork:
            draft = without_copies(caller=run.caller, draft=draft)
        messages = _counted(draft.messages, file, run)
        first = _read_ahead(messages)
        if not first and draft.events == ():
            file.note(f"{draft.source_id}: no message to store")
            return None
        following = next(messages, None)
        rest = messages if following is None else chain([following], messages)
        return _Ready(_of_project(draft, run.repository_of), first, rest, is_whole=following is None)
    except DatabaseUnavailable:
        raise  # not this conversation's fault: the whole import is retried
    except (ConvMemoryError, DataError, OSError) as error:
        _not_stored(file, _name_of(draft), error)
        return None


def _name_of(draft: ConversationDraft, first: Iterable[MessageDraft] | None = None) -> str:
    """Return the title, else the first question among the `first` messages, by which people know a conversation."""
    if draft.title:
        return draft.title
    try:
        opening = islice(draft.messages if first is None else first, NAMING_MESSAGES)
        questions = (" ".join(spoken_text(message.parts).split()) for message in opening if message.role == "user")
        return next((cut(text, NAME_CHARS) for text in questions if text), draft.source_id)
    except (ConvMemoryError, OSError):
        return draft.source_id


def _of_project(draft: ConversationDraft, repository_of: RepositoryOf) -> ConversationDraft:
    """Return the draft with the folder of its project, the worktree in which it ran, and its repository."""
    main, worktree = parted(draft.project)
    repository = repository_of(draft.project)
    if repository and repository.main:
        main, worktree = repository.main, repository.root
    identity = repository.identity if repository else ""
    return replace(draft, project=main, worktree=worktree or draft.worktree, repository=identity or draft.repository)


def _store(run: _Run, ready: _Ready, file: FileReport) -> None:
    draft, name = replace(ready.draft, messages=chain(ready.first, ready.rest)), _name_of(ready.draft, ready.first)
    if run.report.is_cut_short:
        file.leave_over(name)
        return
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            # The import's own row is written last and synchronously, and with it all of this.
            cursor.execute("SET LOCAL synchronous_commit = off")
            result = ingest.sync_conversation(caller=run.caller, draft=draft)
            run.on_stored(file, result)
    except InTrash as error:
        file.skip(draft.source_id, str(error))
        return
    except StorageFull as error:
        run.report.is_cut_short = True
        _not_stored(file, name, error)
        return
    except DatabaseUnavailable:
        raise  # not this conversation's fault: the whole import is retried
    except (ConvMemoryError, DataError, OSError) as error:
        _not_stored(file, name, error)
        return
    if result.lost and result.conversation_id not in run.stored:
        file.note(
            f"{name}: {result.lost:,} messages that are archived are not in this file (any "
            "more); the archive keeps them"
        )
    run.stored.add(result.conversation_id)
    file.conversations += 1
    file.added += result.added
    file.updated += result.updated
    file.unchanged += result.unchanged
    file.turns += result.turns
    file.events += result.events_added
    file.hidden_keys += result.hidden_keys


def _has_fuller_copy(run: _Run, draft: ConversationDraft) -> bool:
    """Return whether the conversation is already stored from a source with more of its content."""
    if not draft.unless_source:
        return False
    stored = Conversation.objects.filter(archive_id=run.caller.archive_id, source=draft.unless_source)
    return stored.filter(source_id=draft.source_id[:300]).exists()


def _read_ahead(messages: Iterator[MessageDraft]) -> list[MessageDraft]:
    """Return the first messages, read in advance so that a transaction does not wait for parsing."""
    read: list[MessageDraft] = []
    size = 0
    for message in messages:
        read.append(message)
        size += message.weight
        if len(read) == READ_AHEAD_MESSAGES or size > READ_AHEAD_BYTES:
            break
    return read


def _counted(messages: Iterable[MessageDraft], file: FileReport, run: _Run) -> Iterator[MessageDraft]:
    for message in messages:
        run.report.messages_read += 1
        file.superseded += message.superseded
        if run.report.messages_read % PROGRESS_EVERY == 0:
            run.progress(run.report)
        is_spoken = message.role == "assistant"
        yield replace(message, parts=thinking_apart(message.parts)) if is_spoken else message


def _warn_of_unknown_types(checked: Checked, file: FileReport) -> None:
    if file.unknown_types:
        count, names = sum(file.unknown_types.values()), ", ".join(list(file.unknown_types)[:SHOWN_TYPES])
        what = "1 entry is" if count == 1 else f"{count:,} entries are"
        file.warn(
            f"{what} of a type that this importer, last checked against {checked}, does not know: {names}. "
            "A newer convmemory may read what was passed over."
        )


def _not_stored(file: FileReport, name: str, error: Exception) -> None:
    file.leave_over(clean(name))
    _failed(file, f"{name}: {' '.join(str(error).split())}")


def _failed(file: FileReport, reason: str) -> None:
    if len(file.errors) < MAX_STORED_ERRORS:
        file.errors.append(clean(reason))
