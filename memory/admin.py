"""Passages in the admin: where each stands, its vector's norm and neighbours; its text on a page of its own."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from convmemory.accounts.content_admin import ContentAdmin
from convmemory.conversations.admin import turn_link
from convmemory.conversations.parts import part_text, speaker_of
from convmemory.core.admin_lists import ConversationFilter, OwnerFilter, UptoFilter, user_id_of
from convmemory.core.metadata_admin import MetadataAdmin, Section, confirmed
from convmemory.embeddings.models import EmbeddingSpace
from memory.models import MessageEmbedding, Passage
from memory.neighbours import SCANNED, passage_neighbours
from memory.tasks import enqueue_embed


@admin.register(Passage)
class PassageAdmin(ContentAdmin):
    """Passages are made and removed with their turns: re-embed a turn to make them anew."""

    list_display = ("id", "owner", "turn", "kind", "short_space", "token_count", "content_hash")
    list_select_related = ("owner", "space")
    list_filter = (OwnerFilter, ConversationFilter, "space", "kind", UptoFilter)
    fields = (
        "owner", "conversation", "turn", "message", "part_index", "start", "end", "kind", "space", "token_count",
        "content_hash",
    )  # fmt: skip
    readonly_fields = ("turn",)
    search_by = ("pk", "conversation_id", "content_hash", "owner")
    search_help_text = "A passage's or a conversation's number, a content hash, or an owner's name."
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("embedding")

    def hash_condition(self, digest: bytes) -> Q:
        return Q(content_hash=UUID(bytes=digest[:16]))

    @admin.display(description="turn")
    def turn(self, obj: Passage) -> str:
        return turn_link(obj.conversation_id, obj.turn_number)

    @admin.display(description="space")
    def short_space(self, obj: Passage) -> str:
        return f"{obj.space.model}, {obj.space.dimensions}"

    def sections(self, request: HttpRequest, obj: Passage) -> list[Section]:
        norm, neighbours = passage_neighbours(obj.pk)
        rows = [
            (
                object_link("memory_passage", found.pk),
                turn_link(found.conversation_id, found.turn_number),
                Passage.Kind(found.number).label,
                f"{found.similarity:.4f}",
            )
            for found in neighbours
        ]
        return [vector_section(norm, obj.space), neighbour_section(("Passage", "Turn", "Kind", "Similarity"), rows)]

    def content_of(self, request: HttpRequest, obj: Passage) -> dict[str, Any]:
        message = obj.message
        parts = message.typed_parts
        text = part_text(parts[obj.part_index])[obj.start : obj.end] if obj.part_index < len(parts) else ""
        is_tool = obj.kind == Passage.Kind.TOOL
        speaker = "Tool" if is_tool else speaker_of(message.role, message.name)  # type: ignore[arg-type]
        return {"text": f"{speaker}: {text}"}


class OwnerOfConversationFilter(OwnerFilter):
    """By the owner of the conversation, whose index this table does not have."""

    def condition(self, value: str) -> Q:
        return Q(conversation__owner_id=user_id_of(value))


@admin.register(MessageEmbedding)
class MessageEmbeddingAdmin(MetadataAdmin):
    """The states of messages: what waits, what is done, what failed and why."""

    list_display = (
        "id", "owner", "conversation_id", "message_id", "role", "status", "attempts", "token_count", "error",
        "updated_at",
    )  # fmt: skip
    list_select_related = ("owner",)
    list_filter = (OwnerOfConversationFilter, ConversationFilter, "status", "space", UptoFilter)
    fields = (
        "owner", "conversation", "message", "position", "role", "space", "status", "error", "attempts", "token_count",
        "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("created_at", "updated_at")
    search_by = ("pk", "conversation_id", "message_id")
    search_help_text = "A record's, a message's or a conversation's number."
    actions = ("retry",)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_messageembedding")

    @admin.action(permissions=["retry"], description="Retry")
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return confirmed(
            self,
            request,
            queryset,
            action="retry",
            verb="Retry",
            consequence="A worker embeds these messages once more, with all their attempts before them.",
            apply=retry_messages,
        )


def retry_messages(rows: Sequence[MessageEmbedding]) -> None:
    """Set these records to pending and ask a worker for each conversation."""
    MessageEmbedding.objects.filter(pk__in=[row.pk for row in rows]).update(
        status=MessageEmbedding.Status.PENDING, attempts=0, error=""
    )
    waiting: dict[int, list[int]] = {}
    for row in rows:
        waiting.setdefault(row.conversation_id, []).append(row.message_id)
    for conversation_id, message_ids in waiting.items():
        enqueue_embed(conversation_id, message_ids)


def vector_section(norm: float, space: EmbeddingSpace) -> Section:
    """What there is to say of a vector alone: one whose norm is not 1 was not made by this product's embedders."""
    return Section("Vector", ("Norm", "Dimensions"), [(f"{norm:.4f}", space.dimensions)])


def neighbour_section(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Section:
    """The table of nearest neighbours, with how they were found."""
    note = f"Cosine similarity within the owner's vectors of this space, {SCANNED:,} of them at most."
    return Section("Nearest neighbours", columns, rows, note)


def object_link(page: str, pk: int) -> str:
    """A link to an object's page in the admin."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), pk)
