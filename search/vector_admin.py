"""What the admin says of single vectors: norm and neighbours; and passages, each with its text on a page of its own."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from convmemory.accounts.content_admin import ContentAdmin
from convmemory.conversations.admin import turn_link
from convmemory.conversations.parts import part_text, speaker_of
from convmemory.core.admin_lists import ConversationFilter, OwnerFilter, UptoFilter
from convmemory.core.metadata_admin import Section
from convmemory.embeddings.models import EmbeddingSpace
from search.models import Passage
from search.vectors.neighbours import SCANNED, passage_neighbours


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
                object_link("search_passage", found.pk),
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
