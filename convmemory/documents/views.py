"""The library with the state of each upload, the viewer of a document, and a conversation's attached documents.

All of it works with plain links and forms; a card polls every two seconds until its document has been processed.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from convmemory.accounts.callers import Caller
from convmemory.accounts.pages import PageRequest, archive_choices, enter_archive_of, in_archive
from convmemory.conversations.importing.imports import get_import
from convmemory.conversations.importing.kept_uploads import opened
from convmemory.conversations.messages.storage_quota import room_left
from convmemory.conversations.pages.browsing_views import came_from
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.conversations.reading import get_conversation
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotFound, TooLarge, TooManyAtOnce
from convmemory.core.files.uploads import DOCUMENT_SUFFIXES
from convmemory.core.numbers import MAX_INTEGER, number_or_refuse
from convmemory.core.text import storable
from convmemory.documents import filing, library
from convmemory.documents.drawing import picture_file
from convmemory.documents.models import Document
from convmemory.documents.tasks import enqueue_document, enqueue_drawing
from convmemory.documents.viewing import Target, find_in, outline_of, view_page, view_pages, view_sections

DOCUMENTS_SHOWN = 50
CHOICES = 200
COLUMNS = (("title", gettext_lazy("Title")), ("sections", gettext_lazy("Sections")), ("size", gettext_lazy("Size")))
ACCEPTED = ",".join((*DOCUMENT_SUFFIXES, "text/*"))


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def library_page(request: PageRequest) -> HttpResponse:
    """Show the documents of the archive that is open, or without one of the caller and their spaces, newest first.

    A POST adds uploads, or with `replaces` one new version.
    """
    files = request.FILES.getlist("file")
    replaces = _number(request.POST.get("replaces", ""))
    if replaces is not None:
        enter_archive_of(request, {"document_id": replaces})
    refusals: list[tuple[str, str]] = []  # name and reason
    for file in files:
        try:
            added = take_upload(caller=request.caller, file=file, replaces=replaces)
        except (InvalidInput, TooLarge, TooManyAtOnce) as error:
            refusals.append((library.clean_name(file.name or "document"), str(error)))
            continue
        if not added.is_new:
            title = added.document.title or added.document.name
            messages.info(request, _("“%(title)s” is in your library already.") % {"title": title})
    if files and not refusals:
        return redirect("document", replaces) if replaces is not None else redirect("documents")
    typed = {name: storable(request.GET.get(name, ""))[:200].strip() for name in ("q", "folder", "tag")}
    criteria = {"title": typed.pop("q"), "sort": request.GET.get("sort", "newest"), **typed}
    spaces = [] if request.caller.space else request.caller.spaces
    space = request.GET.get("space", "") if spaces else ""
    rows, following = library.find_documents(
        caller=request.caller,
        chosen=space,
        limit=DOCUMENTS_SHOWN,
        cursor=request.GET.get("cursor", ""),
        **criteria,
    )
    kept = {name: text for name, text in (("q", criteria["title"]), ("space", space), *typed.items()) if text}
    nothing_chosen = request.method == "POST" and not files
    context = {
        "rows": [(row, access if spaces and access.space else None) for row, access in rows],
        "following": following,
        "archives": [
            (urlencode({**kept, "sort": criteria["sort"], "space": value}), name, value == space)
            for value, name in (archive_choices(spaces) if spaces else ())
        ],
        "space": space,
        "kept": f"&{urlencode(kept)}" if kept else "",
        "q": criteria["title"],
        "chosen": typed,
        "filing": filing.filing_of(caller=request.caller),
        "here": request.get_full_path(),
        "sort": criteria["sort"],
        "columns": COLUMNS,
        "refusals": refusals,
        "nothing_chosen": nothing_chosen,
        "max_mb": config.max_document_mb,
        "room": room_left(archive_id=request.caller.archive_id, documents=1),
        "accepted": ACCEPTED,
        "upload_address": request.build_absolute_uri(reverse("api:upload_document")),
    }
    return render(request, "documents/library.html", context, status=422 if nothing_chosen or refusals else 200)


CHANGES: dict[str, Callable[..., int]] = {
    "tag": filing.add_tag,
    "untag": filing.remove_tag,
    "folder": filing.put_into_folder,
}


@require_POST
@in_archive
def change(request: PageRequest) -> HttpResponse:
    """Tag the chosen documents, take a tag off, or put them into a folder."""
    action, back = request.POST.get("action", ""), came_from(request) or reverse("documents")
    numbers = [number_or_refuse(text, "What was chosen are no documents.") for text in request.POST.getlist("chosen")]
    chosen = [number for number in numbers if number is not None]
    if action not in CHANGES:
        raise InvalidInput(f"There is nothing called {action[:40]!r} to do.")
    if not chosen:
        messages.warning(request, _("Nothing was chosen: tick the documents first."))
        return redirect(back)
    name = request.POST.get("folder" if action == "folder" else "tag", "")
    try:
        count = CHANGES[action](caller=request.caller, document_ids=chosen, name=name)
    except InvalidInput as error:
        messages.error(request, str(error))
    else:
        done = ngettext("%(count)s document is changed.", "%(count)s documents are changed.", count)
        messages.success(request, done % {"count": count})
    return redirect(back)


@require_POST
@in_archive
def add_import(request: PageRequest, import_id: int) -> HttpResponse:
    """Add the upload of an import that no importer could read to the documents."""
    row = get_import(caller=request.caller, import_id=import_id)
    try:
        if row.kept is None:
            raise InvalidInput("The upload is no longer kept: add the file under Documents.")
        with opened(row.kept) as file:
            added = take_upload(caller=request.caller, file=UploadedFile(file, row.name, size=row.size))
    except (InvalidInput, TooLarge, TooManyAtOnce) as error:
        messages.error(request, str(error))
        return redirect("one-import", import_id)
    return redirect("document", added.document.pk)


def take_upload(*, caller: Caller, file: "UploadedFile[Any]", replaces: int | None = None) -> library.Added:
    """Store an upload, and enqueue it unless the library has it.

    Raises: like `library.require_upload` and `library.add_upload`.
    """
    library.require_upload(caller=caller, size=file.size or 0, replaces=replaces)
    stored = library.store_file(archive_id=caller.archive_id, file=file, name=file.name or "document")
    added = library.add_upload(caller=caller, stored=stored, replaces=replaces)
    if added.is_new:
        enqueue_document(archive_id=caller.archive_id, document_id=added.document.pk)
    return added


@require_safe
@in_archive
def document(request: PageRequest, document_id: int) -> HttpResponse:
    """Show the document around `?section=N`, with the characters `from` to `to` of its text marked, and its outline.

    With `?find=words`, the sections that contain them are listed above. A PDF is shown as pictures of its pages, or
    with `view=text` as text.
    """
    row = library.get_document(caller=request.caller, document_id=document_id)
    box, link_target, words = SearchBox.of(request), _link_target(request), request.GET.get("find", "").strip()[:200]
    has_pictures = row.format == "pdf" and bool(row.version)
    shows_pictures = has_pictures and request.GET.get("view") != "text"
    context = {
        "document": row,
        "row": row,
        "window": None if shows_pictures else view_sections(row, link_target),
        "pages": view_pages(row, link_target, _request_drawing(row)) if shows_pictures else None,
        "has_pictures": has_pictures,
        "outline": outline_of(row),
        "find": words,
        "found": find_in(row, words),
        "place": link_target,
        "box": box,
        "keep": box.query_string,
        "accepted": ACCEPTED,
    }
    template = "documents/document.html#main" if request.htmx else "documents/document.html"
    return render(request, template, context)


def _link_target(request: PageRequest) -> Target:
    return Target(*(_number(request.GET.get(name, "")) for name in ("section", "from", "to", "page")))


def _request_drawing(document: Document) -> Callable[[int], None]:
    return lambda page: enqueue_drawing(archive_id=document.archive_id, document_id=document.pk, page=page)


@require_safe
@in_archive
def sheet(request: PageRequest, document_id: int, page: int) -> HttpResponse:
    """Show one page of a PDF; a viewer that only has its text polls until it has been drawn."""
    row = library.get_document(caller=request.caller, document_id=document_id)
    shown = view_page(row, page, _link_target(request), _request_drawing(row))
    if shown is None:
        raise NotFound(f"The document has no page {page}.")
    return render(request, "documents/sheet.html", {"document": row, "sheet": shown, "place": _link_target(request)})


@require_safe
@in_archive
def picture(request: PageRequest, document_id: int, page: int) -> HttpResponse:
    """Send the picture of one page, drawn by a worker."""
    row = library.get_document(caller=request.caller, document_id=document_id)
    file = picture_file(row, page)
    if file is None:
        raise NotFound(f"There is no picture of page {page}.")
    answer = FileResponse(file.open("rb"), content_type="image/webp")
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Cache-Control"] = "private, max-age=86400, immutable"  # its URL contains the file's digest
    return cast("HttpResponse", answer)


@require_safe
@in_archive
def card(request: PageRequest, document_id: int) -> HttpResponse:
    """Show the progress of one document, as a row of the table with `?row=1`."""
    row = library.get_document(caller=request.caller, document_id=document_id)
    space = request.caller.space if request.caller.space != request.chosen else None
    template = "documents/row.html" if "row" in request.GET else "documents/card.html"
    return render(request, template, {"row": row, "member": space})


@require_safe
@in_archive
def download(request: PageRequest, document_id: int) -> HttpResponse:
    """Send the file as it was uploaded; the browser never displays it, whatever it contains."""
    row = library.get_document(caller=request.caller, document_id=document_id)
    if not row.file.storage.exists(str(row.file)):
        raise NotFound("The file is not on this server.")
    answer = FileResponse(
        row.file.open(), as_attachment=True, filename=row.name, content_type="application/octet-stream"
    )
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return cast("HttpResponse", answer)  # a stream is returned like any other response


@require_POST
@in_archive
def retry(request: PageRequest, document_id: int) -> HttpResponse:
    """Read a failed document again."""
    row = library.retry_document(caller=request.caller, document_id=document_id)
    enqueue_document(archive_id=request.caller.archive_id, document_id=row.pk)
    return redirect("documents")


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def delete(request: PageRequest, document_id: int) -> HttpResponse:
    """Ask for confirmation, then put the document into the trash, or delete it for good."""
    row = library.get_document(caller=request.caller, document_id=document_id)
    if request.method != "POST":
        return render(request, "documents/delete.html", {"document": row, "trash_days": config.trash_days})
    library.delete_document(caller=request.caller, document_id=document_id)
    message = _("“%(title)s” is in the trash of: %(place)s") if config.trash_days else _("“%(title)s” is deleted.")
    messages.success(request, message % {"title": row.title or row.name, "place": request.caller.archive.name})
    return redirect("documents")


@dataclass(frozen=True, slots=True)
class Attachments:
    """The documents of a conversation or an agent, for a page that changes them. `purpose` says what for."""

    heading: str
    purpose: str
    back: str
    back_label: str
    documents: list[Document]
    attach: Callable[[Collection[int]], object]
    detach: Callable[[int], None]


@require_http_methods(["GET", "HEAD", "POST"])
@in_archive
def attached(request: PageRequest, conversation_id: int) -> HttpResponse:
    """Show the documents of a conversation, and those that can be attached; a POST attaches or detaches some."""
    of: dict[str, Any] = {"caller": request.caller, "conversation_id": conversation_id}
    conversation = get_conversation(**of)
    attachments = Attachments(
        heading=_("Documents of “%(title)s”") % {"title": conversation.title or _("Untitled conversation")},
        purpose=_("In this conversation the assistant searches the documents that are attached here, and the agent's."),
        back=conversation.get_absolute_url(),
        back_label=_("Back to the conversation"),
        documents=library.attached_documents(**of),
        attach=lambda chosen: library.attach(**of, document_ids=chosen),
        detach=lambda gone: library.detach(**of, document_id=gone),
    )
    return attachments_page(request, attachments)


def attachments_page(request: PageRequest, attachments: Attachments) -> HttpResponse:
    """Show the page of these attachments; a POST attaches or detaches some and redirects."""
    if request.method == "POST":
        if (gone := _number(request.POST.get("detach", ""))) is not None:
            attachments.detach(gone)
        chosen = [number for text in request.POST.getlist("document") if (number := _number(text)) is not None]
        attachments.attach(chosen)
        return redirect(request.path)
    attached_ids = {row.pk for row in attachments.documents}
    newest, _ = library.page_of_documents(caller=request.caller.alone(), limit=CHOICES)
    choices = [row for row, _ in newest if row.pk not in attached_ids]
    return render(request, "documents/attached.html", {"attachments": attachments, "choices": choices})


def _number(text: str) -> int | None:
    """Return a whole number from a form or an address. Raises: InvalidInput."""
    return number_or_refuse(text, f"{text[:40]!r} is not a number: use 0, 1, 2, …", maximum=MAX_INTEGER)
