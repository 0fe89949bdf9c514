"""Documents in the admin: the list shows states, a separate page the content."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from convmemory.accounts.callers import Caller
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.core.administration.lists import OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import DeletableAdmin
from convmemory.core.text import cut
from convmemory.documents.library import delete_for_good
from convmemory.documents.models import Document

CONTENT_CHARS = 20_000
# Not read for lists: file names often describe the content.
UNREAD = ("name", "title", "error", "notes", "next_name", "folder", "tags")


@admin.register(Document)
class DocumentAdmin(ContentAdmin, DeletableAdmin):
    """The documents, without names and titles. They share the active embedding space with turns."""

    list_display = ("id", "archive", "status", "failure", "format", "size", "section_count", "updated_at")
    list_filter = (OwnerFilter, "status", "format", UptoFilter)
    fields = (
        "archive", "status", "failure", "format", "size", "digest", "page_count", "char_count", "section_count",
        "version", "attempts", "created_at", "updated_at",
    )  # fmt: skip
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*UNREAD)

    def delete_rows(self, rows: Sequence[Document]) -> None:
        for row in rows:
            delete_for_good(caller=Caller.for_archive(row.archive_id), document_id=row.pk)

    def content_of(self, request: HttpRequest, obj: Document) -> dict[str, Any]:
        texts = obj.sections.order_by("number").values_list("text", flat=True)[:50]
        note = f"{obj.name}: the first {CONTENT_CHARS:,} characters. {obj.error}"
        return {"text": cut("".join(texts), CONTENT_CHARS), "note": note}
