"""The import page: a form for uploads, and the progress of each import.

The address of an import answers with a page or, for htmx, with its card, which polls every two seconds until the
import has ended.
"""

import json
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.pages import PageRequest, in_archive
from convmemory.conversations.importers.detect import UNKNOWN
from convmemory.conversations.importers.registry import format_of
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.links import FILE_CHARS, Links, conversations_so_far, links_of, request_undo
from convmemory.conversations.importing.models import Import
from convmemory.conversations.messages.storage_quota import room_left
from convmemory.conversations.tasks import enqueue_import, enqueue_undo
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, TooLarge, TooManyAtOnce
from convmemory.core.files.uploads import DOCUMENT_SUFFIXES
from convmemory.core.program import pasted_command

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

ACCEPTED = (
    *(".zip", ".tar", ".tar.gz", ".tgz", ".gz", ".zst", ".json", ".jsonl", ".ndjson", ".html", ".md", ".csv", ".chat"),
    *(".db", ".sqlite", ".sqlite3", ".vscdb"),
)
MAX_PLACE_CHARS = 500
MAPPING_LABELS = {
    "name": _("Program"),
    "at": _("Where the conversations are"),
    "messages": _("Their messages"),
    "group": _("The conversation of a message"),
    "id": _("Id of a conversation"),
    "title": _("Title"),
    "role": _("Who speaks"),
    "roles": _("Names of speakers"),
    "text": _("What they say"),
    "thinking": _("Thinking"),
    "time": _("When"),
    "model": _("Model"),
}
SHOWN = 20
SHOWN_FILES = 10  # of a report; the others are folded


@dataclass(frozen=True, slots=True)
class ImportCard:
    """An import as the page shows it."""

    row: Import
    waits_for: str
    is_open: bool
    files: tuple["FileRow", ...] = ()
    conversations_so_far: int = 0

    @property
    def asks(self) -> bool:
        """True if the owner is asked whether a mapping is right."""
        return any(file.fields for file in self.files)

    @property
    def is_partial(self) -> bool:
        """Return whether something in a file that was read was passed over or could not be stored."""
        return any(
            file.report.get("passed_over")
            or file.report.get("not_stored")
            or (file.report.get("errors") and not file.report.get("refused"))
            for file in self.files
        )

    @property
    def outcome(self) -> str:
        """Return how an import that is done has ended; "" while it is not, and if all its files were refused."""
        if self.row.state != Import.State.DONE or not self.row.report:
            return ""
        total = self.row.report["total"]
        stored, passed_over, missing = (total.get(name, 0) for name in ("conversations", "passed_over", "not_stored"))
        if stored and missing:
            counts = {"missing": missing, "all": stored + missing}
            if self.row.report.get("storage_full"):
                return gettext("partly imported (%(missing)s of %(all)s not: storage full)") % counts
            return gettext("partly imported (%(missing)s of %(all)s not)") % counts
        if stored and passed_over:
            return ngettext("imported without %(count)s entry", "imported without %(count)s entries", passed_over) % {
                "count": passed_over
            }
        if self.is_partial:
            return gettext("partly imported") if stored else gettext("not imported")
        if self.row.report.get("refused_files"):
            return ""
        if stored and not self.has_news:
            return gettext("nothing new: all of it was here")
        return gettext("imported") if stored else gettext("nothing to import in it")

    @property
    def has_news(self) -> bool:
        total = (self.row.report or {}).get("total", {})
        return bool(total.get("added") or total.get("updated") or total.get("events"))

    @property
    def is_complete(self) -> bool:
        """Return whether something was imported and nothing failed, which alone has a green light."""
        report = self.row.report or {}
        return bool(self.outcome and report["total"]["conversations"]) and not self.is_partial

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Return the first files of an import that could read nothing, each with its error."""
        if self.row.failure != Import.Failure.UNREADABLE or self.row.is_preview:
            return []
        return [(file.report["path"], file.report["errors"][0]) for file in self.files[:3] if file.report.get("errors")]

    @property
    def is_unknown(self) -> bool:
        """True if no file of it has a format that is known; then each file says what to do."""
        return (
            self.row.state == Import.State.FAILED
            and bool(self.files)
            and all(file.is_unknown or file.fields for file in self.files)
        )

    @property
    def may_be_named(self) -> bool:
        """True if the upload is one file, which its owner can say the format of."""
        return len(self.files) == 1 and self.row.kept_id is not None and not self.row.changes

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
    fields: tuple["MappingField", ...] = ()

    @property
    def may_be_document(self) -> bool:
        """Return whether it has the ending of a file that Documents read."""
        return self.is_unknown and str(self.report["path"]).lower().endswith(DOCUMENT_SUFFIXES)

    @property
    def sample(self) -> list[tuple[str, str]]:
        """Return the names in the first message of a proposed mapping, with their values."""
        return [(name, value) for name, value in (self.report.get("proposal") or {}).get("sample", ())]

    @property
    def left_over_more(self) -> int:
        """Return how many conversations were not stored beyond those that are named."""
        return int(self.report.get("not_stored", 0)) - len(self.report.get("left_over", ()))

    @property
    def is_unknown(self) -> bool:
        """True if it was refused and nothing better can be said than where to get files that are read."""
        return any(error.startswith(UNKNOWN) for error in self.report.get("errors", ()))


@dataclass(frozen=True, slots=True)
class MappingField:
    """A place of a proposed mapping as the page shows it, to be changed."""

    name: str
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class RefusedUpload:
    """An upload that was refused."""

    name: str
    reason: str


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def import_files(request: PageRequest) -> HttpResponse:
    """Render the upload form and the latest imports; a POST queues the uploaded files."""
    files, folder = request.FILES.getlist("file"), request.FILES.getlist("folder")
    asked = [_queue(request, file) for file in files] + ([_queue_folder(request, folder)] if folder else [])
    refusals = [answer for answer in asked if isinstance(answer, RefusedUpload)]
    if request.htmx and asked:
        # The outcome for the one file or folder that uploading.js sends at a time.
        [answer] = asked[:1]
        if isinstance(answer, RefusedUpload):
            return render(request, "conversations/import_refused.html", {"refusal": answer}, status=422)
        return render(request, "conversations/import_cards.html", {"cards": _cards([answer])})
    if asked and not refusals:
        return redirect("import")
    nothing_chosen = request.method == "POST" and not asked
    context = values_of_where_to_get(request) | {
        "cards": _cards(imports.imports_of(caller=request.caller, limit=SHOWN)),
        "refusals": refusals,
        "nothing_chosen": nothing_chosen,
        "room": room_left(archive_id=request.caller.archive_id, turns=1),
        "max_files": config.data_upload_max_number_files,
        "accepted": ",".join(ACCEPTED),
    }
    return render(request, "conversations/import.html", context, status=422 if nothing_chosen or refusals else 200)


def values_of_where_to_get(request: PageRequest) -> dict[str, Any]:
    """Return the values for the template `conversations/where_to_get.html`, and those of an upload form."""
    of_user = f"--user {shlex.quote(request.user.get_username())}"
    max_mb = config.max_upload_mb
    return {
        "max_upload_mb": max_mb,
        "max_upload_bytes": max_mb * 1024**2,
        "upload_address": request.build_absolute_uri(reverse("api:upload")),
        "import_command": f"{pasted_command()} import_conversations ~/.claude/projects {of_user}",
    }


@require_safe
@in_archive
def one_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Render one import: a page, or its card alone."""
    [card] = _cards([imports.get_import(caller=request.caller, import_id=import_id)])
    template = "conversations/import_card.html" if request.htmx else "conversations/import_one.html"
    return render(request, template, {"card": card})


@require_POST
@in_archive
def map_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Queue the kept upload of an import, to be read by the mapping in the form, or to show what that finds."""
    fields = {name: request.POST.get(name, "")[:MAX_PLACE_CHARS].strip() for name in MAPPING_LABELS}
    mapping: dict[str, Any] = {}
    for name, text in fields.items():
        listed = [item.strip() for item in text.split(",") if item.strip()]
        if name == "name" and text:
            mapping[name] = text.lower()
        elif name == "roles" and text:
            pairs = (item.partition("=") for item in listed)
            mapping[name] = {key.strip(): role.strip() for key, _, role in pairs}
        elif text or name == "at":
            mapping[name] = listed or [""]
    if request.POST.get("entries") == "messages":
        mapping["entries"] = "messages"
    try:
        row = imports.queue_mapped(
            caller=request.caller, import_id=import_id, mapping=mapping, is_preview="preview" in request.POST
        )
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        messages.error(request, str(error))
        return redirect("one-import", import_id)
    enqueue_import(archive_id=row.archive_id, import_id=row.pk)
    return redirect("one-import", row.pk)


@require_POST
@in_archive
def name_format(request: PageRequest, import_id: int) -> HttpResponse:
    """Queue the kept upload of an import, to be read as the format in the form."""
    try:
        format = format_of(request.POST.get("format", ""))
        row = imports.queue_as(caller=request.caller, import_id=import_id, format=format)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        messages.error(request, str(error))
        return redirect("one-import", import_id)
    enqueue_import(archive_id=row.archive_id, import_id=row.pk)
    return redirect("one-import", row.pk)


@require_POST
@in_archive
def undo_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Enqueue the undoing of an import, then redirect to it."""
    try:
        enqueue_undo(request_undo(caller=request.caller, import_id=import_id))
    except InvalidInput as error:
        messages.error(request, str(error))
    return redirect("one-import", import_id)


def _queue(request: PageRequest, file: "UploadedFile[Any]") -> Import | RefusedUpload:
    """Queue one uploaded file, or return its refusal, so that the other files are still queued."""
    try:
        row = imports.queue_import(caller=request.caller, file=file)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        return RefusedUpload(file.name or "upload", str(error))
    enqueue_import(archive_id=row.archive_id, import_id=row.pk)
    return imports.get_import(caller=request.caller, import_id=row.pk)


def _queue_folder(request: PageRequest, files: "list[UploadedFile[Any]]") -> Import | RefusedUpload:
    """Queue the files of a folder as one import."""
    try:
        # Each file's path in the folder, as sent by the browser's script; without them, the bare names.
        text = request.POST.get("paths", "")
        try:
            paths = json.loads(text) if text else []
        except (ValueError, RecursionError):
            paths = []
        fits = isinstance(paths, list) and len(paths) == len(files) and all(isinstance(path, str) for path in paths)
        paths = paths if fits else [file.name or "file" for file in files]
        row = imports.queue_folder(caller=request.caller, files=files, paths=paths)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        return RefusedUpload(gettext("The folder"), str(error))
    enqueue_import(archive_id=row.archive_id, import_id=row.pk)
    return imports.get_import(caller=request.caller, import_id=row.pk)


def _cards(rows: list[Import]) -> list[ImportCard]:
    """Return the imports as cards; the latest report is open, unless the import failed: its error is shown instead."""
    reasons, links, so_far = imports.why_waiting(rows), links_of(rows), conversations_so_far(rows)
    latest = max((row.pk for row in rows), default=0)
    cards = []
    for row in rows:
        files = (row.report or {}).get("files", [])
        cards.append(
            ImportCard(
                row,
                reasons.get(row.pk, ""),
                row.pk == latest,
                tuple(
                    FileRow(file, links.get((row.pk, file["path"][:FILE_CHARS]), Links()), _fields(row, file))
                    for file in files
                ),
                so_far.get(row.pk, 0),
            )
        )
    return [
        replace(card, is_open=card.is_unknown or (card.is_open and (card.asks or card.row.state == Import.State.DONE)))
        for card in cards
    ]


def _fields(row: Import, file: dict[str, Any]) -> tuple[MappingField, ...]:
    """Return the places of the file's proposed mapping, if the upload is still kept."""
    mapping = (file.get("proposal") or {}).get("mapping")
    if not mapping or row.kept_id is None or row.changes:
        return ()
    fields = []
    for name, label in MAPPING_LABELS.items():
        value = mapping.get(name)
        if isinstance(value, dict):
            text = ", ".join(f"{key}={role}" for key, role in value.items())
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        fields.append(MappingField(name, str(label), text))
    return tuple(fields)
