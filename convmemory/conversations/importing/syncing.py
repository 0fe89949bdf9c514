"""Imports that commands start: what the agents of this machine have changed, and kept uploads read again.

A file is identified by its path, device and inode; its size, its modification time and a digest of its beginning show
whether it grew, was rewritten or is unchanged. Unchanged files are not opened.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import AUTO
from convmemory.conversations.importing.kept_uploads import opened, record_kept_conversation
from convmemory.conversations.importing.links import record_conversation
from convmemory.conversations.importing.models import Import, ImportedConversation, KeptUpload, SyncedFile
from convmemory.conversations.importing.runner import (
    ImportReport,
    OnStored,
    ignore,
    import_paths,
    import_upload,
    keep_all,
)
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.ingest import SyncResult
from convmemory.core import acting
from convmemory.core.errors import ConvMemoryError
from convmemory.core.files.work_folders import work_folder
from convmemory.core.text import json_storable, storable
from convmemory.push import repositories
from convmemory.push.databases import DATABASES, Session
from convmemory.push.projects import is_shared
from convmemory.push.rules import Rules, Verdict
from convmemory.push.stores import SessionStore, is_of_chats

# A digest of the beginning tells growth from rewriting without reading the whole file.
HEAD_BYTES = 64 * 1024
DELETED_AFTER_DAYS = 30  # Claude Code's default
WARNED_DAYS = 7
DAY_S = 86_400
_SIDE_ENDINGS = ("-wal",)


@dataclass(frozen=True, slots=True)
class State:
    """A file's state when it was examined. `head` is the digest of its first `head_bytes`."""

    device: int
    inode: int
    size: int
    modified_ns: int
    head: bytes
    head_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """A file to import, and the kind of change: new, grown, rewritten."""

    store: SessionStore
    path: Path
    kind: str
    state: State


@dataclass(slots=True)
class SyncReport:
    """The outcome of one sync: files by kind of change, the import's report, and files that could not be examined."""

    counts: dict[str, int] = field(default_factory=dict)
    imported: ImportReport = field(default_factory=ImportReport)
    problems: list[str] = field(default_factory=list)

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


@dataclass(frozen=True, slots=True)
class Holding:
    """The contents of a store: files, and bytes in total."""

    store: SessionStore
    files: int
    size: int


def holdings(stores: Iterable[SessionStore]) -> list[Holding]:
    """Return the contents of each store; stores without a conversation are left out."""
    held_here = []
    for store in stores:
        sizes = [path.stat().st_size for path in _files(store) if path.exists()]
        if sizes:
            held_here.append(Holding(store, len(sizes), sum(sizes)))
    return held_here


def has_synced(caller: Caller) -> bool:
    """Return whether this person's stores were ever imported."""
    return SyncedFile.objects.filter(archive_id=caller.archive_id).exists()


def sync_places(
    *,
    caller: Caller,
    stores: Sequence[SessionStore],
    rules: Rules | None = None,
    on_stored: OnStored = ignore,
    report: SyncReport | None = None,
) -> SyncReport:
    """Import new and changed files in the stores, except what the rules leave out, adding to `report`.

    A file that fails is reported and retried at the next sync.
    """
    report, rules = report or SyncReport(), rules or Rules()
    repository_of = lru_cache(maxsize=1_000)(repositories.repository_of)

    for change in changes(caller=caller, stores=stores, report=report):
        # A database is left to its importer, which reads it under limits.
        verdict = Verdict() if change.path.suffix in DATABASES else rules.of_file(change.store, change.path)
        if verdict.reason and verdict.is_read:
            report.count("left out")
            continue
        report.count(change.kind)
        source = _source_of(change)
        is_divided = is_shared(change.store, change.path) or source != change.path or not verdict.is_read
        left_out = {session.id: rules.reason(session) for session in verdict.left_out}

        def reason(draft: ConversationDraft, left_out: Mapping[str, str] = left_out) -> str:
            return left_out.get(draft.source_id) or rules.reason(Session(draft.source_id, draft.project))

        done = import_paths(
            caller=caller, paths=[source], on_stored=on_stored, reason_to_leave_out=reason if is_divided else keep_all,
            repository_of=repository_of,
        )  # fmt: skip
        report.imported.files += done.files
        report.imported.messages_read += done.messages_read
        # A failed file is not recorded, so that the next sync tries it again.
        if not any(file.errors for file in done.files):
            state = change.state
            SyncedFile.objects.update_or_create(
                archive_id=caller.archive_id,
                path=storable(str(change.path)),
                defaults={
                    "agent": change.store.agent,
                    "device": state.device,
                    "inode": state.inode,
                    "size": state.size,
                    "modified_ns": state.modified_ns,
                    "head": state.head,
                    "head_bytes": state.head_bytes,
                },
            )
    return report


def changes(*, caller: Caller, stores: Sequence[SessionStore], report: SyncReport) -> list[Change]:
    """Return the files that changed since their import; files that cannot be examined become problems of the report."""
    rows = {row.path: row for row in SyncedFile.objects.filter(archive_id=caller.archive_id)}
    changed: list[Change] = []
    for store in stores:
        for path in _files(store):
            try:
                row = rows.get(storable(str(path)))
                kind, state = _compared(path, row)
            except OSError as error:
                report.problems.append(f"{path} cannot be read: {error.strerror or error}")
                continue
            if state is None:
                report.count("unchanged")
            else:
                changed.append(Change(store, path, kind, state))
    return changed


def soon_deleted(*, claude: Path, now_s: float | None = None) -> list[Path]:
    """Return the sessions that Claude Code deletes within a week, oldest first."""
    days = DELETED_AFTER_DAYS
    settings_file = claude / "settings.json"
    if settings_file.is_file():
        try:
            period = json.loads(settings_file.read_bytes()[: 1024**2]).get("cleanupPeriodDays")
        except (ValueError, AttributeError, RecursionError):
            period = None  # unreadable settings mean the default
        days = period if isinstance(period, int) and 0 < period < 36_500 else days
    oldest_kept = (time.time() if now_s is None else now_s) - (days - WARNED_DAYS) * DAY_S
    sessions = [(path.stat().st_mtime, path) for path in claude.glob("projects/*/*.jsonl")]
    return [path for modified, path in sorted(sessions) if modified < oldest_kept]


def _files(store: SessionStore) -> Iterable[Path]:
    return (path for path in store.files() if is_of_chats(store, path))


def _compared(path: Path, row: SyncedFile | None) -> tuple[str, State | None]:
    """Return the file's kind of change since `row` was stored, and its state; no state if unchanged.

    Raises: OSError.
    """
    status = path.stat()
    files = [path, *(log for ending in _SIDE_ENDINGS if (log := path.with_name(path.name + ending)).exists())]
    statuses = [file.stat() for file in files]
    size, modified_ns = sum(status.st_size for status in statuses), max(status.st_mtime_ns for status in statuses)
    if row is not None and (int(row.device), int(row.inode), row.size, row.modified_ns) == (
        status.st_dev, status.st_ino, size, modified_ns,
    ):  # fmt: skip
        return "unchanged", None
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    state = State(status.st_dev, status.st_ino, size, modified_ns, _digest(head), len(head))
    if row is None:
        return "new", state
    same_beginning = size >= row.size and _digest(head[: row.head_bytes]) == bytes(row.head)
    return ("grown" if same_beginning and row.inode == status.st_ino else "rewritten"), state


def _digest(head: bytes) -> bytes:
    return hashlib.sha256(head).digest()


def _source_of(change: Change) -> Path:
    """Return the path to import for a file: the file, or the session folder that contains it."""
    if change.store.agent == "opencode" and change.path.suffix == ".json":
        return next(path for path in change.path.parents if path.name == "session").parent
    return change.path


COMMAND_LEASE = timedelta(minutes=3)  # a single file may take so long
RENEW_EVERY_S = 2.0
INTERRUPTED = "The command was interrupted: what it had read until then is stored. Run it again, or undo this."


# The row is created at the start as an interrupted import, so that it can be undone however the command ends. It is
# shown as running as long as the command renews its lease.
def import_undoably(
    *, caller: Caller, name: str, run: Callable[[OnStored], ImportReport], format: str = AUTO
) -> ImportReport:
    """Run a command's import, and list it among the owner's imports for Undo if it stored anything."""
    row = Import.objects.create(
        archive_id=caller.archive_id, name=storable(name)[:255], format=format, size=0, state=Import.State.FAILED,
        failure=Import.Failure.INTERRUPTED, error=INTERRUPTED, started_at=timezone.now(), ended_at=timezone.now(),
        started_by=acting.current().adds_for, lease_until=timezone.now() + COMMAND_LEASE,
    )  # fmt: skip
    listed = Import.objects.filter(pk=row.pk, state=Import.State.FAILED)
    messages: Counter[str] = Counter()
    renew_at = time.monotonic()

    def note(file: FileReport, result: SyncResult) -> None:
        nonlocal renew_at
        record_conversation(row, file, result)
        messages[file.path] += result.added + result.updated + result.unchanged
        if time.monotonic() >= renew_at:
            renew_at = time.monotonic() + RENEW_EVERY_S
            lease = timezone.now() + COMMAND_LEASE
            listed.update(lease_until=lease, files_read=len(messages), messages_read=messages.total())

    try:
        report = run(note)
    except BaseException:
        with suppress(DatabaseError):  # it may be the reason
            listed.update(lease_until=None, ended_at=timezone.now())
        raise
    if ImportedConversation.objects.filter(archive_id=caller.archive_id, import_job=row).exists():
        listed.update(
            state=Import.State.DONE, failure="", error="", lease_until=None, ended_at=timezone.now(),
            files_read=len(report.files), messages_read=report.messages_read,
            report=json_storable(report.to_stored_json()),
        )  # fmt: skip
        record(Action.CHANGED, what=f"import {row.pk}", person_id=caller.person_id, about_id=caller.archive_id)
    else:
        row.delete()
    return report


OnReport = Callable[[KeptUpload, ImportReport], None]


def archives_with_uploads() -> list[int]:
    """Return the archives with kept uploads, in order."""
    return list(KeptUpload.objects.order_by("archive_id").values_list("archive_id", flat=True).distinct())


def reimport(*, caller: Caller, on_report: OnReport) -> None:
    """Import the owner's kept uploads again; one that cannot be read is reported, and the others are still imported."""
    for upload in KeptUpload.objects.filter(archive_id=caller.archive_id, stored_size__gt=0).order_by("pk"):
        try:
            report = import_undoably(
                caller=caller,
                name=upload.name,
                format=upload.format,
                run=partial(_read, caller, upload),
            )
        except ConvMemoryError as error:
            report = ImportReport(files=[FileReport(path=upload.name, errors=[str(error)])])
        on_report(upload, report)


def _read(caller: Caller, upload: KeptUpload, on_stored: OnStored) -> ImportReport:
    def note(file: FileReport, result: SyncResult) -> None:
        on_stored(file, result)
        record_kept_conversation(upload, result.conversation_id)

    with work_folder("import", archive_id=caller.archive_id) as folder, opened(upload) as file:
        return import_upload(
            caller=caller, file=file, name=upload.name, format=upload.format, folder=folder, on_stored=note
        )
