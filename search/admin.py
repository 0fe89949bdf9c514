"""The index in the admin: sources, item vectors, lexical documents, and the index state of each source."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.contrib import admin
from django.db.models import F, Q, QuerySet, Value
from django.db.models.lookups import Exact
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from numpy.typing import NDArray

from convmemory.accounts.content_access import may_read_content
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.core.administration.lists import ConversationFilter, OwnerFilter, UptoFilter, whole_number
from convmemory.core.administration.metadata import AdminTable, DeletableAdmin, MetadataAdmin, confirmed
from convmemory.core.text import cut
from search.indexing import sweeping
from search.indexing.batches import read_items
from search.indexing.inspecting import (
    SCANNED,
    embedded_text,
    item_neighbours,
    texts_of_items,
)
from search.indexing.sweeping import sources_behind
from search.models import HASH_START, HASH_START_BYTES, Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from search.sources import adapter_of
from search.tasks import enqueue_sources
from search.vectors.packing import ITEMS_PER_BLOCK, Passages, StoredPassage
from search.vectors.texts import item_texts, passage_text

# The number of characters shown of a neighbour's text.
SHOWN_CHARS = 300
BAR_HEIGHT = 40  # of the largest value of a vector, in the units of its picture


class SourceFilter(ConversationFilter):
    """Filters by the number of the conversation or other object."""

    def condition(self, value: str) -> Q:
        return Q(source__object_id=whole_number(value))


@admin.register(PassageBlock)
class PassageBlockAdmin(ContentAdmin):
    """The passages, packed by some items, with which they come and go: re-embed an item to recreate them."""

    list_display = ("id", "archive", "items", "short_space", "passages", "is_kept")
    list_select_related = ("archive__person", "space", "source")
    list_filter = (OwnerFilter, SourceFilter, "space", "is_kept", UptoFilter)
    fields = ("archive", "source", "items", "space", "passages", "is_kept")
    readonly_fields = ("items",)
    search_by = ("pk", "source__object_id", "archive")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        columns = ("entries", "digests", "codes", "fine", "tokens")
        return super().get_queryset(request).filter(source__version__gt=0).defer(*columns)

    @admin.display(description="items")
    def items(self, obj: PassageBlock) -> str:
        first = obj.number * ITEMS_PER_BLOCK
        links = [item_link(obj.source.kind, obj.source.object_id, number) for number in (first, obj.last_item)]
        return format_html("{} to {}", *links) if first < obj.last_item else links[0]

    @admin.display(description="space")
    def short_space(self, obj: PassageBlock) -> str:
        return f"{obj.space.model}, {obj.space.dimensions}"

    def sections(self, request: HttpRequest, obj: PassageBlock) -> list[AdminTable]:
        is_own = request.user.pk == obj.archive_id
        texts = texts_of_passages(obj) if is_own else {}
        rows = [
            (
                item_link(obj.source.kind, obj.source.object_id, one.item_number),
                PassageBlock.Kind(one.kind).label,
                one.element_id,
                f"part {one.part_index}, {one.start} to {one.end}",
                one.token_count,
                *((cut(texts[one], SHOWN_CHARS),) if is_own else ()),
            )
            for one in passages_of(obj)
        ]
        columns = ("Item", "Kind", "Element", "Characters", "Tokens", *(("Text",) if is_own else ()))
        table = AdminTable("Passages", columns, rows)
        return [table] if is_own else [self.embedded_section(request, obj, None), table]

    def content_of(self, request: HttpRequest, obj: PassageBlock) -> dict[str, Any]:
        return {"text": "\n\n".join(texts_of_passages(obj).values())}


def passages_of(block: PassageBlock) -> Passages:
    """Return the passages of a block."""
    return Passages.read([(block.entries, block.digests, block.codes, block.fine, block.tokens)], block.space)


def texts_of_passages(block: PassageBlock) -> dict[StoredPassage, str]:
    """Return the embedded text of each passage, "" if its message is gone; the caller has checked the reader."""
    passages = list(passages_of(block))
    read = adapter_of(block.source.kind).read_elements
    elements = read(block.archive_id, list({one.element_id for one in passages}))
    texts = dict.fromkeys(passages, "")
    for one in passages:
        element = elements.get(one.element_id)
        part = next((part for part in element.parts if part.index == one.part_index), None) if element else None
        if element and part:
            texts[one] = passage_text(element, part, one.start, one.end)
    return texts


def vector_section(norm: float, row: ItemEmbedding, *, shows_values: bool) -> AdminTable:
    """Return a table of a vector's properties: a norm other than 1 shows a vector of another program.

    Its values, as bars, are for those who may read the text: a text can be guessed from its vector.
    """
    bars = (vector_bars(np.asarray(row.embedding)),) if shows_values else ()
    columns = ("Norm", "Dimensions", *(("Values",) if shows_values else ()))
    return AdminTable("Vector", columns, [(f"{norm:.4f}", row.space.dimensions, *bars)])


def vector_bars(values: NDArray[np.float64]) -> SafeString:
    """Return a picture of the values: a bar for each dimension, up for positive values."""
    heights = values / (np.abs(values).max() or 1.0) * BAR_HEIGHT
    path = "".join(f"M{position} {BAR_HEIGHT}v{-height:.1f}" for position, height in enumerate(heights))
    return format_html(
        '<svg class="vector" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<path d="{}"/></svg>',
        len(values), 2 * BAR_HEIGHT, f"{len(values)} values from {values.min():.3f} to {values.max():.3f}", path,
    )  # fmt: skip


def neighbour_section(columns: tuple[str, ...], rows: list[tuple[Any, ...]], *, has_texts: bool) -> AdminTable:
    """Return the table of nearest neighbours, with a note on the method."""
    note = f"Cosine similarity within the owner's vectors of this space, {SCANNED:,} of them at most."
    if not has_texts:
        note += " Their texts are on the page “Read the content”, for staff with that permission."
    return AdminTable("Nearest neighbours", columns, rows, note)


def object_link(page: str, pk: int) -> str:
    """Return a link to an object's page in the admin."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{page}_change", args=[pk]), pk)


def item_link(kind: str, object_id: int, number: int) -> str:
    """Return a link to the item: its owner gets the product's page, others the admin's, which asks and records."""
    address = reverse("admin:search_item_open", args=[kind, object_id, number])
    return format_html('<a href="{}">{} {}</a>', address, adapter_of(kind).item_name, number + 1)


def reading_link(kind: str, object_id: int, number: int) -> str:
    """Return a link to the admin's page with the item's content, if its kind has one."""
    address = adapter_of(kind).reading_url(object_id, number)
    return format_html('<a href="{}">content</a>', address) if address else ""


MAX_BEHIND = 200  # sources


class StaleFilter(admin.SimpleListFilter):
    """Filters vectors by whether their items have changed since, according to the recorded changes.

    Only the sources that wait longest are considered.
    """

    title = "state"
    parameter_name = "stale"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Stale"), ("0", "Up to date")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "1":
            return queryset.filter(stale_items())
        return queryset.exclude(stale_items()) if self.value() == "0" else queryset


def stale_items() -> Q:
    """Return a condition for the changed items of the `MAX_BEHIND` sources waiting longest.

    The numbers are inlined: with a join the database would look up the source of each vector.
    """
    from_item = dict(sources_behind().values_list("pk", "state__dirty_from")[:MAX_BEHIND])
    changed = Q(source_id__in=[pk for pk, number in from_item.items() if not number])
    for pk, number in from_item.items():
        if number:
            changed |= Q(source_id=pk, item_number__gte=number)
    return Q(source_id__in=list(from_item)) & changed


class IndexStateFilter(admin.SimpleListFilter):
    """Filters by the state of a source's index."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("stale", "Stale"), ("failed", "Failed"), ("done", "Up to date")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        stale = ~Q(indexed_version=F("source__version"))
        if self.value() == "failed":
            return queryset.exclude(error="")
        if self.value() == "stale":
            return queryset.filter(stale)
        return queryset.exclude(stale) if self.value() == "done" else queryset


class FailedFilter(admin.SimpleListFilter):
    """Filters by whether an item could not be embedded."""

    title = "state"
    parameter_name = "failed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.exclude(error="") if self.value() == "1" else queryset


class ReindexingAdmin(MetadataAdmin):
    """Adds the actions "retry" and "re-embed", for staff who may change index states."""

    actions: Sequence[str] = ("retry", "reembed")

    def has_reindex_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("search.change_sourceindex")

    @admin.action(permissions=["reindex"], description="Retry")
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        consequence = "A worker compares their sources item by item and embeds what is missing or changed."
        return confirmed(
            self, request, queryset, action="retry", verb="Retry", consequence=consequence, apply=self.retry_rows
        )

    @admin.action(permissions=["reindex"], description="Re-embed")
    def reembed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        consequence = "A worker makes them again; search goes on with the present ones until then."
        return confirmed(
            self, request, queryset, action="reembed", verb="Re-embed", consequence=consequence, apply=self.reembed_rows
        )

    def retry_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.source_id for row in rows}
        sweeping.retry_sources(ids)
        enqueue_sources(ids)

    def reembed_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.source_id for row in rows}
        sweeping.reembed_sources(ids)
        enqueue_sources(ids)


@admin.register(ItemEmbedding)
class ItemEmbeddingAdmin(ContentAdmin, ReindexingAdmin, DeletableAdmin):
    list_display = ("id", "archive", "item", "chunk_number", "short_space", "token_count", "short_hash", "created_at")
    list_select_related = ("archive__person", "space", "source")
    list_filter = (OwnerFilter, SourceFilter, "space", StaleFilter, UptoFilter)
    fields = ("archive", "source", "item", "chunk_number", "space", "token_count", "hash", "created_at")
    readonly_fields = ("item", "hash")
    search_by = ("pk", "source__object_id", "content_hash", "archive")
    actions = ("retry", "reembed", "delete_chosen")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("embedding")

    def hash_condition(self, digest: bytes) -> Q:
        return Q(Exact(HASH_START, Value(digest[:HASH_START_BYTES])), content_hash=digest)

    @admin.display(description="item")
    def item(self, obj: ItemEmbedding) -> str:
        return item_link(obj.source.kind, obj.source.object_id, obj.item_number)

    @admin.display(description="space")
    def short_space(self, obj: ItemEmbedding) -> str:
        return f"{obj.space.model}, {obj.space.dimensions}"

    @admin.display(description="content hash")
    def hash(self, obj: ItemEmbedding) -> str:
        return bytes(obj.content_hash).hex() or "stale, to be made again"

    @admin.display(description="content hash")
    def short_hash(self, obj: ItemEmbedding) -> str:
        return bytes(obj.content_hash).hex()[:12] or "stale"

    def reembed_rows(self, rows: Sequence[Any]) -> None:
        enqueue_sources(sweeping.reembed_items([row.pk for row in rows]))

    def delete_rows(self, rows: Sequence[Any]) -> None:
        enqueue_sources(sweeping.delete_item_embeddings([row.pk for row in rows]))

    def sections(self, request: HttpRequest, obj: ItemEmbedding) -> list[AdminTable]:
        norm, neighbours = item_neighbours(obj.pk)
        is_readable = may_read_content(reader=request.user, archive_id=obj.archive_id)
        is_own = request.user.pk == obj.archive_id
        texts = texts_of_items(neighbour.item for neighbour in neighbours) if is_own else {}
        rows = [
            (
                object_link("search_itemembedding", neighbour.pk),
                item_link(*neighbour.item),
                neighbour.number,
                f"{neighbour.similarity:.4f}",
                *((cut(texts.get(neighbour.item, ""), SHOWN_CHARS),) if is_own else ()),
                reading_link(*neighbour.item) if is_readable else "",
            )
            for neighbour in neighbours
        ]
        columns = ("Vector", "Item", "Chunk", "Similarity", *(("Text",) if is_own else ()), "Read")
        return [
            self.embedded_section(request, obj, embedded_text(obj)[0] if is_own else None),
            vector_section(norm, obj, shows_values=is_own),
            neighbour_section(columns, rows, has_texts=is_own),
        ]

    def content_of(self, request: HttpRequest, obj: ItemEmbedding) -> dict[str, Any]:
        text, note = embedded_text(obj)
        norm, neighbours = item_neighbours(obj.pk)
        texts = texts_of_items(neighbour.item for neighbour in neighbours)
        rows = [
            (item_link(*neighbour.item), cut(texts[neighbour.item], SHOWN_CHARS), f"{neighbour.similarity:.4f}")
            for neighbour in neighbours
        ]
        section = neighbour_section(("Item", "Text", "Similarity"), rows, has_texts=True)
        return {"text": text, "note": note, "sections": [vector_section(norm, obj, shows_values=True), section]}


@admin.register(Item)
class ItemAdmin(ContentAdmin, ReindexingAdmin):
    list_display = ("id", "archive", "item", "length", "created_at", "error")
    list_select_related = ("archive__person", "source")
    list_filter = (OwnerFilter, SourceFilter, FailedFilter, UptoFilter)
    fields = ("archive", "source", "item", "opening_id", "length", "hash", "created_at", "error")
    readonly_fields = ("item", "hash")
    search_by = ("pk", "source__object_id", "archive")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("spoken", "unspoken", "heading")

    @admin.display(description="item")
    def item(self, obj: Item) -> str:
        return item_link(obj.source.kind, obj.source.object_id, obj.number)

    @admin.display(description="content hash")
    def hash(self, obj: Item) -> str:
        return bytes(obj.content_hash).hex()

    def get_urls(self) -> list[URLPattern]:
        address = "of/<str:kind>/<int:object_id>/<int:number>/"
        return [path(address, self.admin_site.admin_view(self.open), name="search_item_open"), *super().get_urls()]

    def open(self, request: HttpRequest, kind: str, object_id: int, number: int) -> HttpResponse:
        """Redirect a link to an item: its owner to the product's page, others to the page that asks first and
        records.
        """
        row = Item.objects.filter(source__kind=kind, source__object_id=object_id, number=number).only("archive").first()
        if row is None or not self.has_view_permission(request):
            raise Http404
        if row.archive_id == request.user.pk:
            return redirect(adapter_of(kind).url(object_id, number))
        return redirect("admin:search_item_content", row.pk)

    def content_of(self, request: HttpRequest, obj: Item) -> dict[str, Any]:
        read = read_items(obj.source, obj.number, obj.number)
        text = item_texts(read[0]).embedded if read else ""
        return {"text": text or obj.heading, "heading": obj.heading}


@admin.register(Source)
class SourceAdmin(MetadataAdmin):
    """The sources of the index, without title and project."""

    list_display = ("id", "archive", "kind", "object_id", "item_count", "version", "archived", "updated_at")
    list_filter = (OwnerFilter, "kind", UptoFilter)
    fields = (
        "archive", "kind", "object_id", "origin", "archived", "item_count", "element_count", "version", "spoken_length",
        "created_at", "updated_at",
    )  # fmt: skip
    search_by = ("pk", "object_id", "archive")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("title", "project")


@admin.register(SourceIndex)
class SourceIndexAdmin(ReindexingAdmin):
    """The index state of each source in each space.

    An action on a row marks the source's state in the active space.
    """

    list_display = ("id", "source", "archive", "space", "is_up_to_date", "error")
    list_filter = (OwnerFilter, SourceFilter, IndexStateFilter, "space", UptoFilter)
    fields = (
        "source", "archive", "space", "is_up_to_date", "indexed_version", "seen_version", "dirty_from", "last_item",
        "passages", "refused", "attempts", "error", "updated_at",
    )  # fmt: skip
    readonly_fields = ("is_up_to_date", "updated_at")
    search_by = ("pk", "source__object_id", "archive")

    @admin.display(description="up to date", boolean=True)
    def is_up_to_date(self, obj: SourceIndex) -> bool:
        return obj.indexed_version == obj.source.version and not obj.error
