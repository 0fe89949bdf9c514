"""Single vectors in the admin, with norm and neighbours; and passages, whose text is on a separate page."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from convmemory.accounts.content_admin import ContentAdmin
from convmemory.core.admin_lists import ConversationFilter, OwnerFilter, UptoFilter, whole_number
from convmemory.core.metadata_admin import Section
from convmemory.core.text import cut
from convmemory.embeddings.models import EmbeddingSpace
from search.models import Passage
from search.sources import adapter_of
from search.vectors.neighbours import SCANNED, Neighbour, passage_neighbours
from search.vectors.texts import passage_text

# The number of characters shown of a neighbour's text.
SHOWN_CHARS = 300


class SourceFilter(ConversationFilter):
    """Filters by the number of the conversation or other object."""

    def condition(self, value: str) -> Q:
        return Q(source__object_id=whole_number(value))


@admin.register(Passage)
class PassageAdmin(ContentAdmin):
    """The passages, which are created and deleted with their items: re-embed an item to recreate them."""

    list_display = ("id", "owner", "item", "kind", "short_space", "token_count", "content_hash")
    list_select_related = ("owner", "space", "source")
    list_filter = (OwnerFilter, SourceFilter, "space", "kind", UptoFilter)
    fields = (
        "owner", "source", "item", "element_id", "part_index", "start", "end", "kind", "space", "token_count",
        "content_hash",
    )  # fmt: skip
    readonly_fields = ("item",)
    search_by = ("pk", "source__object_id", "content_hash", "owner")
    search_help_text = "A passage's or a conversation's number, a content hash, or an owner's name."
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("embedding")

    def hash_condition(self, digest: bytes) -> Q:
        return Q(content_hash=UUID(bytes=digest[:16]))

    @admin.display(description="item")
    def item(self, obj: Passage) -> str:
        return item_link(obj.source.kind, obj.source.object_id, obj.item_number)

    @admin.display(description="space")
    def short_space(self, obj: Passage) -> str:
        return f"{obj.space.model}, {obj.space.dimensions}"

    def sections(self, request: HttpRequest, obj: Passage) -> list[Section]:
        norm, neighbours = passage_neighbours(obj.pk)
        is_own = request.user.pk == obj.owner_id
        texts = texts_of_passages([found.pk for found in neighbours]) if is_own else None
        return [vector_section(norm, obj.space), passage_section(neighbours, texts)]

    def content_of(self, request: HttpRequest, obj: Passage) -> dict[str, Any]:
        neighbours = passage_neighbours(obj.pk)[1]
        texts = texts_of_passages([obj.pk, *(found.pk for found in neighbours)])
        return {"text": texts.get(obj.pk, ""), "sections": [passage_section(neighbours, texts)]}


def texts_of_passages(ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of one owner's passages, by their ids; the caller has checked the reader."""
    rows = list(Passage.objects.filter(pk__in=ids).select_related("source").defer("embedding"))
    texts = {}
    for kind in {row.source.kind for row in rows}:
        of_kind = [row for row in rows if row.source.kind == kind]
        read = adapter_of(kind).read_elements(of_kind[0].owner_id, [row.element_id for row in of_kind])
        for row in of_kind:
            element = read.get(row.element_id)
            part = next((part for part in element.parts if part.index == row.part_index), None) if element else None
            texts[row.pk] = passage_text(element, part, row.start, row.end) if element and part else ""
    return texts


def passage_section(neighbours: Sequence[Neighbour], texts: Mapping[int, str] | None) -> Section:
    """Return a table of the neighbours of a passage; with their texts if `texts` are given."""
    rows = [
        (
            object_link("search_passage", found.pk),
            item_link(found.kind, found.object_id, found.item_number),
            Passage.Kind(found.number).label,
            f"{found.similarity:.4f}",
            *((cut(texts.get(found.pk, ""), SHOWN_CHARS),) if texts is not None else ()),
        )
        for found in neighbours
    ]
    columns = ("Passage", "Item", "Kind", "Similarity", *(("Text",) if texts is not None else ()))
    return neighbour_section(columns, rows, has_texts=texts is not None)


def vector_section(norm: float, space: EmbeddingSpace) -> Section:
    """Return a table of a vector's properties: a norm other than 1 shows a vector of another program."""
    return Section("Vector", ("Norm", "Dimensions"), [(f"{norm:.4f}", space.dimensions)])


def neighbour_section(columns: tuple[str, ...], rows: list[tuple[Any, ...]], *, has_texts: bool) -> Section:
    """Return the table of nearest neighbours, with a note on the method."""
    note = f"Cosine similarity within the owner's vectors of this space, {SCANNED:,} of them at most."
    if not has_texts:
        note += " What they say stands on the page “Read the content”."
    return Section("Nearest neighbours", columns, rows, note)


def object_link(page: str, pk: int) -> str:
    """Return a link to an object's page in the admin."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), pk)


def item_link(kind: str, object_id: int, number: int) -> str:
    """Return a link to the item: its owner gets the product's page, others the admin's, which asks and records."""
    address = reverse("admin:search_item_open", args=[kind, object_id, number])
    return format_html('<a href="{}">{} {}</a>', address, adapter_of(kind).item_name, number)


def reading_link(kind: str, object_id: int, number: int) -> str:
    """Return a link to the admin's page with the item's content, if its kind has one."""
    address = adapter_of(kind).reading_url(object_id, number)
    return format_html('<a href="{}">content</a>', address) if address else ""
