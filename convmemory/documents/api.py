"""Routes for documents: upload one, follow its progress, delete it, attach it to conversations.

The upload route holds neither a thread nor a database connection while the file is stored.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import P, QueryEx, Router, Status

from convmemory.accounts.authentication import caller_in, caller_of
from convmemory.accounts.callers import Caller
from convmemory.accounts.uploads import UPLOAD_AUTHENTICATION, in_upload_thread, uploaded_file
from convmemory.conversations.schemas import ONE_ARCHIVE, SPACES
from convmemory.core.numbers import number_or_refuse
from convmemory.core.threads import in_thread
from convmemory.documents import library
from convmemory.documents.library import Added, StoredFile
from convmemory.documents.models import Document
from convmemory.documents.schemas import AttachedDocuments, AttachIn, DocumentOut, DocumentPage
from convmemory.documents.tasks import enqueue_document

router = Router(tags=["documents"])

FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "replaces": {"type": "integer", "description": "the document that this file is a new version of"},
    },
}


@router.post(
    "/documents",
    auth=UPLOAD_AUTHENTICATION,
    response={200: DocumentOut, 202: DocumentOut},
    summary="Upload a document",
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}},
)
async def upload_document(
    request: HttpRequest, response: HttpResponse, space: QueryEx[str, P(description=ONE_ARCHIVE)] = ""
) -> Any:
    """202: a worker reads it; ask `Location` for its status. 200: this very file is in your library already."""
    caller = await in_thread(caller_in, request, space)
    file = await in_upload_thread(lambda: uploaded_file(request, others=("replaces",)))
    text = request.POST.get("replaces", "")
    replaces = number_or_refuse(text, f"replaces={text[:40]!r} is no document's number.")
    await in_thread(library.require_upload, caller=caller, size=file.size or 0, replaces=replaces)
    stored = await in_upload_thread(
        lambda: library.store_file(archive_id=caller.archive_id, file=file, name=file.name or "document")
    )
    added = await in_thread(_add, caller, stored, replaces)
    response["Location"] = reverse("api:show_document", args=[added.document.pk])
    return Status(202 if added.is_new else 200, added.document)


@router.get("/documents", response=DocumentPage, by_alias=False, summary="Your documents, newest first")
def list_documents(
    request: HttpRequest,
    limit: QueryEx[int, P(ge=1, le=100)] = 20,
    before_id: int | None = None,
    space: QueryEx[str, P(description=SPACES)] = "",
) -> dict[str, Any]:
    rows, following = library.page_of_documents(caller=caller_of(request), chosen=space, limit=limit, before=before_id)
    for row, access in rows:
        vars(row)["space"] = access.space
    return {"results": [row for row, _ in rows], "next_before_id": following}


@router.get("/documents/{int:document_id}", response=DocumentOut, by_alias=False, summary="One document")
def show_document(request: HttpRequest, document_id: int) -> Document:
    return library.get_document(caller=caller_of(request), document_id=document_id)


@router.delete("/documents/{int:document_id}", response={204: None}, summary="Put a document into the trash")
def delete_document(request: HttpRequest, document_id: int) -> Status[None]:
    """Without a trash (TRASH_DAYS=0) it is deleted for good."""
    library.delete_document(caller=caller_of(request), document_id=document_id)
    return Status(204, None)


@router.get(
    "/conversations/{int:conversation_id}/documents",
    response=AttachedDocuments,
    by_alias=False,
    summary="The documents attached to a conversation",
)
def list_attached(request: HttpRequest, conversation_id: int) -> dict[str, Any]:
    return {"results": library.attached_documents(caller=caller_of(request), conversation_id=conversation_id)}


@router.post(
    "/conversations/{int:conversation_id}/documents",
    response=AttachedDocuments,
    by_alias=False,
    summary="Attach documents to a conversation",
)
def attach_documents(request: HttpRequest, conversation_id: int, body: AttachIn) -> dict[str, Any]:
    caller = caller_of(request)
    return {"results": library.attach(caller=caller, conversation_id=conversation_id, document_ids=body.document_ids)}


@router.delete(
    "/conversations/{int:conversation_id}/documents/{int:document_id}",
    response={204: None},
    summary="Detach a document from a conversation",
)
def detach_document(request: HttpRequest, conversation_id: int, document_id: int) -> Status[None]:
    library.detach(caller=caller_of(request), conversation_id=conversation_id, document_id=document_id)
    return Status(204, None)


def _add(caller: Caller, stored: StoredFile, replaces: int | None) -> Added:
    added = library.add_upload(caller=caller, stored=stored, replaces=replaces)
    if added.is_new:
        enqueue_document(archive_id=caller.archive_id, document_id=added.document.pk)
    return added
