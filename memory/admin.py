"""The embedding states of messages in the admin: pending, completed, failed."""

from collections.abc import Sequence

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from convmemory.core.administration.lists import (
    ConversationFilter,
    OwnerFilter,
    UptoFilter,
    user_id_of,
    whole_number,
)
from convmemory.core.administration.metadata import MetadataAdmin, confirmed_action
from memory.models import MessageEmbedding
from memory.tasks import enqueue_embed


class OwnerOfMessageFilter(OwnerFilter):
    """Filters by the owner of the message, whose table has an index for it."""

    def condition(self, value: str) -> Q:
        return Q(message__archive_id=user_id_of(value))


class HomeFilter(ConversationFilter):
    """Filters by the number of the message's conversation."""

    def condition(self, value: str) -> Q:
        return Q(message__conversation_id=whole_number(value))


def retry_messages(rows: Sequence[MessageEmbedding]) -> None:
    """Set these records to pending and enqueue a task for each conversation."""
    MessageEmbedding.objects.filter(pk__in=[row.pk for row in rows]).update(
        status=MessageEmbedding.Status.PENDING, attempts=0, error=""
    )
    waiting: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        waiting.setdefault((row.archive_id, row.conversation_id), []).append(row.message_id)
    for (archive_id, conversation_id), message_ids in waiting.items():
        enqueue_embed(archive_id=archive_id, conversation_id=conversation_id, message_ids=message_ids)


@admin.register(MessageEmbedding)
class MessageEmbeddingAdmin(MetadataAdmin):
    """The embedding states of messages: pending, completed, or failed and why."""

    list_display = (
        "id", "archive", "conversation_id", "message_id", "role", "status", "token_count", "error", "updated_at",
    )  # fmt: skip
    list_select_related = ("archive__person", "message")
    list_filter = (OwnerOfMessageFilter, HomeFilter, "status", "space", UptoFilter)
    fields = (
        "archive", "conversation_id", "message", "position", "role", "space", "status", "error", "attempts",
        "token_count", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("conversation_id", "position", "role", "created_at", "updated_at")
    search_by = ("pk", "message__conversation_id", "message_id")
    actions = ("retry",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[MessageEmbedding]:
        return super().get_queryset(request).defer("message__parts", "message__outcome")

    retry = confirmed_action(
        "retry",
        permission="change_rows",
        verb="Retry",
        consequence="A worker embeds these messages once more, with all their attempts before them.",
        apply=retry_messages,
    )
