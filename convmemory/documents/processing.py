"""Processes an uploaded file in a worker: a child process converts it, and the worker stores its sections.

The state goes from uploaded through processing to ready, or to failed with the reason and a remedy. If a new version
cannot be read, the document says so and keeps the old one. Each step can safely be repeated.
"""

import json
import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import F

from convmemory.conversations.messages.storage_quota import Amounts, StorageChange, count_changes
from convmemory.core.config import config
from convmemory.core.errors import StorageFull
from convmemory.core.files.private_files import has_digest
from convmemory.core.files.work_folders import work_folder
from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import ChildLimits, Ending, plain_environment
from convmemory.core.text import cut
from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converting import Heading, read_heading, read_section
from convmemory.documents.library import drop_file
from convmemory.documents.models import Document, Section
from convmemory.documents.signals import document_changed, sections_moved
from convmemory.documents.structure import SectionDraft

# A file that kills its worker, by memory for instance, would otherwise be read again for ever.
MAX_ATTEMPTS = 3
TASK_MARGIN_S = 60
SECTIONS_AT_ONCE = 500
ERROR_CHARS = 2_000

Status, Failure = Document.Status, Document.Failure
SectionKey = tuple[tuple[str, ...], int | None, str]

logger = logging.getLogger(__name__)


def process_document(*, archive_id: int, document_id: int) -> str:
    """Read the document's file, or the next version's; return its status afterwards, or "gone"."""
    document = _begin(archive_id, document_id)
    if document is None:
        statuses = Document.objects.filter(pk=document_id, archive_id=archive_id).values_list("status", flat=True)
        return str(statuses.first() or "gone")
    with work_folder("document", archive_id=document.archive_id, claim=document.pk) as folder:
        target = folder / "sections.jsonl"
        ending = run_child(document, target)
        if ending is Ending.DONE:
            _finish(document, target)
        else:
            what_to_do = "Split it and upload the parts, or ask who runs the server for more."
            if ending is Ending.OUT_OF_TIME:
                limit = f"{config.document_timeout_s} s (DOCUMENT_TIMEOUT_S)"
                _fail(document, Failure.TIME, f"Reading it took longer than {limit}. {what_to_do}")
            elif ending is Ending.STALLED:
                limit = f"{config.document_stall_s} s (DOCUMENT_STALL_S)"
                _fail(document, Failure.TIME, f"Reading it made no progress for {limit}. {what_to_do}")
            elif ending is Ending.OUT_OF_MEMORY:
                limit = f"{config.document_memory_mb} MB (DOCUMENT_MEMORY_MB)"
                _fail(document, Failure.MEMORY, f"Reading it needs more memory than {limit}. {what_to_do}")
            elif ending is Ending.DISK_FULL:
                _fail(
                    document,
                    Failure.INTERNAL,
                    "The server's disk is full. Ask who runs the server for room, then try again.",
                )
            elif ending is Ending.CRASHED:
                _fail(
                    document,
                    Failure.BROKEN,
                    f"The file ended the program that reads it: it may be damaged. {what_to_do}",
                )
    document.refresh_from_db()
    return document.status


def run_child(document: Document, target: Path) -> Ending:
    """Convert the file in a separate process, without this process's settings and secrets."""
    file = document.next_file or document.file
    limits = ConvertLimits(
        max_pages=config.max_document_pages,
        max_chars=config.max_document_chars,
        ocr=config.document_ocr,
        hide_keys=config.hide_keys,
    )
    name = document.next_name or document.name
    # The time is less than a task may take, so that the worker survives to report the outcome.
    return child_process.run_child(
        "convmemory.documents.converting",
        [file.path, name, str(target), json.dumps(asdict(limits))],
        limits=ChildLimits(
            memory_mb=config.document_memory_mb,
            timeout_s=int(min(config.document_timeout_s, config.task_timeout_s - TASK_MARGIN_S)),
            stall_s=config.document_stall_s,
        ),
        environment=plain_environment() | {"TMPDIR": str(target.parent)},
        is_wanted=lambda: Document.objects.filter(pk=document.pk, status=Status.PROCESSING).exists(),
        progress=lambda: child_process.touched_at(target),
    )


def unfinished_documents(*, limit: int) -> list[tuple[int, int, int | None]]:
    """Return owner and id of documents waiting to be read, and who added them to a space, oldest first."""
    rows = Document.objects.filter(status__in=(Status.UPLOADED, Status.PROCESSING)).order_by("updated_at")
    return list(rows.values_list("archive_id", "pk", "added_by")[:limit])


def _begin(archive_id: int, document_id: int) -> Document | None:
    """Return the document, now processing; None if it needs no work, or has killed its workers too often."""
    rows = Document.objects.filter(pk=document_id, archive_id=archive_id)
    waiting = rows.filter(status__in=(Status.UPLOADED, Status.PROCESSING))
    waiting.update(status=Status.PROCESSING, attempts=F("attempts") + 1)
    document = waiting.first()
    if document is None:
        return None
    if document.attempts > MAX_ATTEMPTS:
        error = f"Reading it was interrupted {MAX_ATTEMPTS} times: split it, or try again."
        _fail(document, Failure.INTERRUPTED, error)
        return None
    file = document.next_file or document.file
    path = Path(file.path)
    if not has_digest(path, path.name):
        lost = "is not in the worker's MEDIA_ROOT, which several machines have to share"
        error = f"The stored file {'is damaged' if path.exists() else lost}. Upload it again."
        _fail(document, Failure.INTERNAL, error)
        return None
    return document


def _finish(document: Document, target: Path) -> None:
    """Store the child's output."""
    try:
        with target.open(encoding="utf-8") as lines:
            heading = read_heading(next(lines))
            if heading.failure:
                _fail(document, Failure(heading.failure), heading.error)
                return
            _store(document, heading, map(read_section, lines))
    except StorageFull as error:
        _fail(document, Failure.TOO_LARGE, str(error))
    except (StopIteration, ValueError, KeyError, TypeError, OSError) as error:
        logger.error("What was read of document %s is damaged: %s", document.pk, type(error).__name__)
        _fail(document, Failure.INTERNAL, f"An error of the server ended it: {type(error).__name__}. Try again.")


def _fail(document: Document, failure: Document.Failure, error: str) -> None:
    """Store the reason; a document that was readable before keeps its old version."""
    gone = str(document.next_file)
    status = Status.READY if gone and document.version else Status.FAILED
    message = f"The new version {document.next_name} was not taken. {error}" if gone else error
    rows = Document.objects.filter(pk=document.pk, status=Status.PROCESSING)
    rows.update(status=status, failure=failure, error=cut(message, ERROR_CHARS), next_file="", next_name="")
    if gone:
        drop_file(archive_id=document.archive_id, stored_name=gone)


def _store(document: Document, heading: Heading, drafts: Iterable[SectionDraft]) -> None:
    """Replace the sections in one transaction; unchanged ones keep their rows. Raises: StorageFull."""
    sections = list(drafts)
    with transaction.atomic():
        locked = Document.objects.select_for_update().filter(pk=document.pk, status=Status.PROCESSING).first()
        if locked is None or str(locked.next_file) != str(document.next_file):
            return  # deleted or replaced again meanwhile
        # The stored sections that are unchanged, by new number, each used once, in order among equal texts.
        stored: dict[SectionKey, deque[Section]] = defaultdict(deque)
        for row in locked.sections.order_by("number"):
            stored[tuple(row.path), row.page, row.text].append(row)
        kept: dict[int, Section] = {}
        for number, draft in enumerate(sections):
            if same := stored.get((draft.path, draft.page, draft.text)):
                kept[number] = same.popleft()
        moved = {row.number: number for number, row in kept.items()}
        sections_moved.send(Document, document=locked, moved=moved)
        locked.sections.exclude(pk__in=[row.pk for row in kept.values()]).delete()
        for number, row in kept.items():
            row.number, row.start, row.headings = number, sections[number].start, sections[number].headings
        Section.objects.bulk_update(kept.values(), ["number", "start", "headings"], SECTIONS_AT_ONCE)
        new = (
            Section(
                archive_id=locked.archive_id, document=locked, number=number, path=list(draft.path), page=draft.page,
                start=draft.start, text=draft.text, headings=draft.headings,
            )
            for number, draft in enumerate(sections)
            if number not in kept
        )  # fmt: skip
        for batch in batches(new, SECTIONS_AT_ONCE):
            Section.objects.bulk_create(batch)
        # Write the heading into the row, which may name another file now.
        gone = ""
        if locked.next_file:
            gone, locked.file.name = str(locked.file), str(locked.next_file)
            locked.digest = str(locked.next_file).rpartition("/")[2]
            locked.name, locked.size = locked.next_name, locked.file.size
            locked.next_file.name = locked.next_name = ""
        locked.format, locked.title = heading.format, heading.title
        locked.notes, locked.coverage = heading.notes, heading.coverage
        locked.page_count, locked.char_count, locked.section_count = heading.pages, heading.chars, heading.sections
        locked.status, locked.failure, locked.error = Status.READY, "", ""
        locked.attempts, locked.version = 0, locked.version + 1
        before = locked.stored_bytes
        locked.stored_bytes = locked.size + sum(len(section.text.encode()) for section in sections)
        locked.save()
        document_changed.send(Document, document=locked, first_section=0)
        change = StorageChange()
        growth = Amounts(locked.stored_bytes - (before or 0))
        change.add(growth, archive_id=locked.archive_id, added_by=locked.added_by)
        count_changes(change)
        if gone:
            transaction.on_commit(lambda: drop_file(archive_id=locked.archive_id, stored_name=gone))


def batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield `rows` in lists of at most `size`."""
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
