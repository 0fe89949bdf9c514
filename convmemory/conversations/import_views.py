"""The import page: a form for uploads, and how far each import is.

One import's address answers a page, or to htmx its card, which asks again every two seconds until it has ended.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from convmemory.accounts.views import PageRequest, signed_in
from convmemory.conversations import imports
from convmemory.conversations.models import Import
from convmemory.conversations.options import ImportOptions
from convmemory.conversations.tasks import enqueue_import
from convmemory.conversations.views import SearchBox
from convmemory.core.errors import InvalidInput, TooLarge, TooManyAtOnce

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

ACCEPTED = (".zip", ".tar", ".tar.gz", ".tgz", ".gz", ".json", ".jsonl")
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Card:
    """An import as the page shows it."""

    row: Import
    waits_for: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """An upload that was not taken."""

    name: str
    reason: str


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def import_files(request: PageRequest) -> HttpResponse:
    """A form for transcripts and archives, and the latest imports; a POST queues what was uploaded."""
    files = request.FILES.getlist("file")
    refusals = [refusal for file in files if (refusal := _queue(request, file))]
    if files and not refusals:
        return redirect("import")
    nothing_chosen = request.method == "POST" and not files
    context = {
        "box": SearchBox(),
        "cards": _cards(imports.imports_of(owner=request.user, limit=SHOWN)),
        "refusals": refusals,
        "nothing_chosen": nothing_chosen,
        "max_upload_mb": ImportOptions.from_settings().max_upload_mb,
        "accepted": ",".join(ACCEPTED),
        "upload_address": request.build_absolute_uri(reverse("api:upload")),
        "username": request.user.get_username(),
    }
    return render(request, "conversations/import.html", context, status=422 if nothing_chosen or refusals else 200)


@require_safe
@signed_in
def one_import(request: PageRequest, import_id: int) -> HttpResponse:
    """One import: a page, or its card alone."""
    [card] = _cards([imports.get_import(owner=request.user, import_id=import_id)])
    template = "conversations/import_card.html" if request.htmx else "conversations/import_one.html"
    return render(request, template, {"card": card, "box": SearchBox()})


def _queue(request: PageRequest, file: "UploadedFile[Any]") -> Refusal | None:
    """Queue one uploaded file; what is wrong with it is said in its place, the other files go on."""
    try:
        enqueue_import(imports.queue_import(owner=request.user, file=file).pk)
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        return Refusal(file.name or "upload", str(error))
    return None


def _cards(rows: list[Import]) -> list[Card]:
    """The imports; the report of the latest is open. What failed says why without it."""
    reasons = imports.why_waiting(rows)
    latest = max((row.pk for row in rows), default=0)
    return [Card(row, reasons.get(row.pk, ""), row.pk == latest and row.state == Import.State.DONE) for row in rows]
