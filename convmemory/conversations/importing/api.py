"""Routes for imports: upload a transcript or an archive, then wait for the report or fetch it later.

While it waits, the upload route holds neither a thread nor a database connection. Its form is read in separate
threads, because that can mean copying half a gigabyte.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import P, QueryEx, Router, Status

from convmemory.accounts.authentication import caller_in
from convmemory.accounts.callers import Caller
from convmemory.accounts.uploads import UPLOAD_AUTHENTICATION, in_upload_thread, uploaded_file
from convmemory.conversations.importers.detect import AUTO
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.links import links_of, request_undo
from convmemory.conversations.importing.models import Import
from convmemory.conversations.schemas import ONE_ARCHIVE, ImportList, ImportOut, ImportWithReport
from convmemory.conversations.tasks import enqueue_import, enqueue_undo
from convmemory.core.numbers import number_or_refuse
from convmemory.core.threads import in_thread

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

router = Router(tags=["imports"])

Space = QueryEx[str, P(description=ONE_ARCHIVE)]
WAIT_S = 60
MAX_WAIT_S = 300
# Short pauses first, because small files are read quickly.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0

FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "format": {"type": "string", "default": AUTO},
        "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
    },
}


@dataclass(frozen=True, slots=True)
class UploadForm:
    """The fields of an upload."""

    file: "UploadedFile[Any]"
    format: str
    wait_s: int


@router.post(
    "/imports",
    auth=UPLOAD_AUTHENTICATION,
    response={200: dict[str, Any], 202: ImportOut},
    summary="Import a transcript or an archive of transcripts",
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}},
)
async def upload(
    request: HttpRequest,
    response: HttpResponse,
    wait: QueryEx[int, P(ge=0, le=MAX_WAIT_S)] = WAIT_S,
    space: Space = "",
) -> Any:
    """Waits up to `wait` seconds for the import to end. 200: the report per file, with the import's `id`; 202: it goes
    on, see `Location`. A file of which nothing could be read, or that costs too much, is 422 or 413 with the report.
    """
    caller = await in_thread(caller_in, request, space)
    form = await in_upload_thread(lambda: _form(request, wait))
    imports.require_acceptable(file=form.file, format=form.format)
    await in_thread(imports.require_capacity, caller=caller, size=form.file.size or 0)
    stored = await in_upload_thread(lambda: imports.store_upload(form.file, archive_id=caller.archive_id))
    row = await in_thread(_queue, caller, stored, form.format)
    # The import as soon as it has ended, or after the waiting time.
    deadline, pause_s = time.monotonic() + form.wait_s, FIRST_PAUSE_S
    while row.is_unfinished and (left_s := deadline - time.monotonic()) > 0:
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
        row = await in_thread(imports.get_import, caller=caller, import_id=row.pk)
    if row.state == Import.State.FAILED:
        raise imports.error_of(row)
    named = f"?{urlencode({'space': space})}" if space else ""
    response["Location"] = reverse("api:show_import", args=[row.pk]) + named
    if row.is_unfinished:
        return Status(202, await in_thread(_shown, row))
    return Status(200, {"id": row.pk, "state": row.state, **(row.report or {})})


@router.get("/imports", response=ImportList, summary="Your imports, newest first")
def list_imports(
    request: HttpRequest,
    limit: QueryEx[int, P(ge=1, le=100)] = 20,
    digest: QueryEx[str, P(description="SHA-256 of an upload, in hexadecimal: its imports alone")] = "",
    space: Space = "",
) -> dict[str, Any]:
    rows = imports.imports_of(caller=caller_in(request, space), limit=limit, digest=digest)
    return {"results": _with_reasons(rows)}


@router.get("/imports/{int:import_id}", response=ImportWithReport, summary="One import, with its report once it ended")
def show_import(request: HttpRequest, import_id: int, space: Space = "") -> Import:
    row = _shown(imports.get_import(caller=caller_in(request, space), import_id=import_id))
    row.conversations = [  # type: ignore[attr-defined]
        {"file": file, "id": link.conversation_id, "title": link.title, "turns": link.turns, "url": link.url}
        for (_, file), links in links_of([row]).items()
        for link in links.shown
    ]
    return row


@router.post("/imports/{int:import_id}/undo", response={202: ImportOut}, summary="Undo a whole import")
def undo_import(request: HttpRequest, import_id: int, space: Space = "") -> Status[Import]:
    """Conversations that it made are deleted for good and messages that it added are taken out again; what came before,
    and what came since, stays. 202: a worker does it; the import's state says when it is `undone`.
    """
    row = request_undo(caller=caller_in(request, space), import_id=import_id)
    enqueue_undo(row)
    return Status(202, _shown(row))


def _form(request: HttpRequest, wait_s: int) -> UploadForm:
    file = uploaded_file(request, others=("format", "wait"))
    text = request.POST.get("wait", "")
    refusal = f"wait={text[:40]!r} is no waiting time: give 0 to {MAX_WAIT_S} seconds."
    chosen_s = number_or_refuse(text, refusal, maximum=MAX_WAIT_S)
    return UploadForm(file, request.POST.get("format") or AUTO, wait_s if chosen_s is None else chosen_s)


def _queue(caller: Caller, stored: imports.StoredUpload, format: str) -> Import:
    row = imports.create_import(caller=caller, stored=stored, format=format)
    enqueue_import(archive_id=row.archive_id, import_id=row.pk)
    return imports.get_import(caller=caller, import_id=row.pk)


def _shown(row: Import) -> Import:
    return _with_reasons([row])[0]


def _with_reasons(rows: list[Import]) -> list[Import]:
    reasons = imports.why_waiting(rows)
    for row in rows:
        row.detail = reasons.get(row.pk, "")  # type: ignore[attr-defined]
    return rows
