"""The import page: a form for uploads, and the progress of each import.

The address of an import answers with a page or, for htmx, with its card, which polls every two seconds until the
import has ended.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.links import FILE_CHARS, Links, links_of, request_undo
from convmemory.conversations.importing.models import Import
from convmemory.conversations.tasks import enqueue_import, enqueue_undo
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, TooLarge, TooManyAtOnce

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

ACCEPTED = (
    *(".zip", ".tar", ".tar.gz", ".tgz", ".gz", ".zst", ".json", ".jsonl", ".ndjson", ".html", ".md", ".csv", ".chat"),
    *(".db", ".sqlite", ".sqlite3", ".vscdb"),
)
SHOWN = 20
SHOWN_FILES = 10  # of a report; the others are folded


@dataclass(frozen=True, slots=True)
class Card:
    """An import as the page shows it."""

    row: Import
    waits_for: str
    is_open: bool
    files: tuple["FileRow", ...] = ()

    @property
    def more_files(self) -> int:
        return len(self.files) - SHOWN_FILES

    @property
    def can_be_undone(self) -> bool:
        return self.row.state in (Import.State.DONE, Import.State.FAILED) and any(
            file.links.shown for file in self.files
        )


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file of an import's report, with links to the conversations that it contained."""

    report: dict[str, Any]
    links: Links


@dataclass(frozen=True, slots=True)
class Refusal:
    """An upload that was refused."""

    name: str
    reason: str


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def import_files(request: PageRequest) -> HttpResponse:
    """Render the upload form and the latest imports; a POST queues the uploaded files."""
    files, folder = request.FILES.getlist("file"), request.FILES.getlist("folder")
    asked = [_queue(request, file) for file in files] + ([_queue_folder(request, folder)] if folder else [])
    refusals = [answer for answer in asked if isinstance(answer, Refusal)]
    if request.htmx and asked:
        return _answer_script(request, asked)
    if asked and not refusals:
        return redirect("import")
    nothing_chosen = request.method == "POST" and not asked
    context = upload_values() | {
        "cards": _cards(imports.imports_of(owner=request.user, limit=SHOWN)),
        "refusals": refusals,
        "nothing_chosen": nothing_chosen,
        "max_files": config.data_upload_max_number_files,
        "accepted": ",".join(ACCEPTED),
        "upload_address": request.build_absolute_uri(reverse("api:upload")),
        "username": request.user.get_username(),
    }
    return render(request, "conversations/import.html", context, status=422 if nothing_chosen or refusals else 200)


def _answer_script(request: PageRequest, asked: "list[Import | Refusal]") -> HttpResponse:
    """Return the outcome for the one file or folder that uploading.js sends at a time."""
    [answer] = asked[:1]
    if isinstance(answer, Refusal):
        return render(request, "conversations/import_refused.html", {"refusal": answer}, status=422)
    return render(request, "conversations/import_cards.html", {"cards": _cards([answer])})


def upload_values() -> dict[str, Any]:
    """The size limits shown by an upload form."""
    max_mb = config.max_upload_mb
    return {"max_upload_mb": max_mb, "max_upload_bytes": max_mb * 1024**2}


@require_safe
@signed_in
def one_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Render one import: a page, or its card alone."""
    [card] = _cards([imports.get_import(owner=request.user, import_id=import_id)])
    template = "conversations/import_card.html" if request.htmx else "conversations/import_one.html"
    return render(request, template, {"card": card})


@require_POST
@signed_in
def undo_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Enqueue the undoing of an import, then redirect to it."""
    try:
        enqueue_undo(request_undo(owner=request.user, import_id=import_id))
    except InvalidInput as error:
        messages.error(request, str(error))
    return redirect("one-import", import_id)


def _queue(request: PageRequest, file: "UploadedFile[Any]") -> Import | Refusal:
    """Queue one uploaded file, or return its refusal, so that the other files are still queued."""
    try:
        row = imports.queue_import(owner=request.user, file=file)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        return Refusal(file.name or "upload", str(error))
    enqueue_import(owner_id=row.owner_id, import_id=row.pk)
    return imports.get_import(owner=request.user, import_id=row.pk)


def _queue_folder(request: PageRequest, files: "list[UploadedFile[Any]]") -> Import | Refusal:
    """Queue the files of a folder as one import."""
    try:
        paths = _paths(request.POST.get("paths", ""), files)
        row = imports.queue_folder(owner=request.user, files=files, paths=paths)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        return Refusal("The folder", str(error))
    enqueue_import(owner_id=row.owner_id, import_id=row.pk)
    return imports.get_import(owner=request.user, import_id=row.pk)


def _paths(given: str, files: "list[UploadedFile[Any]]") -> list[str]:
    """Return each file's path in the folder, as sent by the browser's script; without them, the bare names."""
    try:
        paths = json.loads(given) if given else []
    except (ValueError, RecursionError):
        paths = []
    fits = isinstance(paths, list) and len(paths) == len(files) and all(isinstance(path, str) for path in paths)
    return paths if fits else [file.name or "file" for file in files]


def _cards(rows: list[Import]) -> list[Card]:
    """Return the imports as cards; the latest report is open, unless the import failed: its error is shown instead."""
    reasons, links = imports.why_waiting(rows), links_of(rows)
    latest = max((row.pk for row in rows), default=0)
    return [
        Card(row, reasons.get(row.pk, ""), row.pk == latest and row.state == Import.State.DONE, _files(row, links))
        for row in rows
    ]


def _files(row: Import, links: dict[tuple[int, str], Links]) -> tuple[FileRow, ...]:
    files = (row.report or {}).get("files", [])
    return tuple(FileRow(file, links.get((row.pk, file["path"][:FILE_CHARS]), Links())) for file in files)
