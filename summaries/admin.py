"""Summaries in the admin: the list shows their states; a separate page shows the text."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from convmemory.accounts.content_admin import ContentAdmin
from convmemory.core.administration.lists import ConversationFilter, OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import DeletableAdmin, confirmed_action
from summaries.models import ConversationSummary
from summaries.ordering import make_pending
from summaries.tasks import enqueue_summary


def remake(rows: Sequence[ConversationSummary]) -> None:
    """Set these summaries to pending with all attempts restored, and enqueue each one."""
    make_pending(ConversationSummary.objects.filter(pk__in=[row.pk for row in rows]))
    for row in rows:
        enqueue_summary(archive_id=row.archive_id, summary_id=row.pk)


@admin.register(ConversationSummary)
class ConversationSummaryAdmin(ContentAdmin, DeletableAdmin):
    list_display = (
        "id", "archive", "conversation", "from_position", "to_position", "status", "method", "token_count", "attempts",
        "updated_at",
    )  # fmt: skip
    list_filter = (OwnerFilter, ConversationFilter, "status", "method", UptoFilter)
    fields = (
        "archive", "conversation", "from_position", "to_position", "status", "error", "method", "model",
        "prompt_version", "token_count", "attempts", "due_at", "created_at", "updated_at", "completed_at",
    )  # fmt: skip
    readonly_fields = ("created_at", "updated_at")
    search_by = ("pk", "conversation_id", "archive")
    actions = ("retry", "delete_chosen")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("content", "partials")

    retry = confirmed_action(
        "retry",
        permission="change_rows",
        verb="Regenerate",
        consequence="A worker makes them again, as they were made before; their present texts stay until then.",
        apply=remake,
    )

    def content_of(self, request: HttpRequest, obj: ConversationSummary) -> dict[str, Any]:
        return {"text": obj.content, "note": obj.label}
