"""The embedding states of messages in the admin: pending, completed, failed."""

from collections.abc import Sequence

from django.contrib import admin
from django.db.models import Q

from convmemory.core.administration.lists import ConversationFilter, OwnerFilter, UptoFilter, user_id_of
from convmemory.core.administration.metadata import MetadataAdmin, confirmed_action
from memory.models import MessageEmbedding
from memory.tasks import enqueue_embed


class OwnerOfConversationFilter(OwnerFilter):
    """Filters by the owner of the conversation, for which this table has an index."""

    def condition(self, value: str) -> Q:
        return Q(conversation__archive_id=user_id_of(value))


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
    list_filter = (OwnerOfConversationFilter, ConversationFilter, "status", "space", UptoFilter)
    fields = (
        "archive", "conversation", "message", "position", "role", "space", "status", "error", "attempts", "token_count",
        "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("created_at", "updated_at")
    search_by = ("pk", "conversation_id", "message_id")
    actions = ("retry",)

    retry = confirmed_action(
        "retry",
        permission="change_rows",
        verb="Retry",
        consequence="A worker embeds these messages once more, with all their attempts before them.",
        apply=retry_messages,
    )
