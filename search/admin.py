"""The index in the admin: sources, item vectors, lexical documents, and the index state of each source."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path

from convmemory.accounts.content_access import may_read_content
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.core.admin_lists import OwnerFilter, UptoFilter
from convmemory.core.metadata_admin import DeletableAdmin, MetadataAdmin, Section, confirmed
from search.indexing import reindexing
from search.indexing.batches import read_items
from search.indexing.embedded_text import embedded_text
from search.indexing.sweeping import sources_behind
from search.models import Item, ItemEmbedding, Source, SourceIndex
from search.results.headings import headings_of
from search.sources import adapter_of
from search.tasks import enqueue_sources
from search.vector_admin import SourceFilter, item_link, neighbour_section, object_link, reading_link, vector_section
from search.vectors.neighbours import item_neighbours
from search.vectors.texts import item_texts

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
        return self._ask(request, queryset, "retry", "Retry", consequence, self.retry_rows)

    @admin.action(permissions=["reindex"], description="Re-embed")
    def reembed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        consequence = "A worker makes them again; search goes on with the present ones until then."
        return self._ask(request, queryset, "reembed", "Re-embed", consequence, self.reembed_rows)

    def retry_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.source_id for row in rows}
        reindexing.retry_sources(ids)
        enqueue_sources(ids)

    def reembed_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.source_id for row in rows}
        reindexing.reembed_sources(ids)
        enqueue_sources(ids)

    def _ask(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        action: str,
        verb: str,
        consequence: str,
        apply: Callable[[Sequence[Any]], None],
    ) -> HttpResponse | None:
        return confirmed(self, request, queryset, action=action, verb=verb, consequence=consequence, apply=apply)


@admin.register(ItemEmbedding)
class ItemEmbeddingAdmin(ContentAdmin, ReindexingAdmin, DeletableAdmin):
    list_display = ("id", "owner", "item", "chunk_number", "short_space", "token_count", "short_hash", "created_at")
    list_select_related = ("owner", "space", "source")
    list_filter = (OwnerFilter, SourceFilter, "space", StaleFilter, UptoFilter)
    fields = ("owner", "source", "item", "chunk_number", "space", "token_count", "hash", "created_at")
    readonly_fields = ("item", "hash")
    search_by = ("pk", "source__object_id", "content_hash", "owner")
    search_help_text = "A vector's or a conversation's number, an item's content hash, or an owner's name."
    actions = ("retry", "reembed", "delete_chosen")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("embedding")

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
        enqueue_sources(reindexing.reembed_items([row.pk for row in rows]))

    def delete_rows(self, rows: Sequence[Any]) -> None:
        enqueue_sources(reindexing.delete_item_embeddings([row.pk for row in rows]))

    def sections(self, request: HttpRequest, obj: ItemEmbedding) -> list[Section]:
        norm, neighbours = item_neighbours(obj.pk)
        is_readable = may_read_content(reader=request.user, owner_id=obj.owner_id)
        is_own = request.user.pk == obj.owner_id
        headings = headings_of(found.item for found in neighbours) if is_own else {}
        rows = [
            (
                object_link("search_itemembedding", found.pk),
                item_link(*found.item),
                found.number,
                f"{found.similarity:.4f}",
                *((headings.get(found.item, ""),) if is_own else ()),
                reading_link(*found.item) if is_readable else "",
            )
            for found in neighbours
        ]
        columns = ("Vector", "Item", "Chunk", "Similarity", *(("Heading",) if is_own else ()), "Read")
        return [vector_section(norm, obj.space), neighbour_section(columns, rows, has_texts=is_own)]

    def content_of(self, request: HttpRequest, obj: ItemEmbedding) -> dict[str, Any]:
        text, note = embedded_text(obj)
        neighbours = item_neighbours(obj.pk)[1]
        headings = headings_of(found.item for found in neighbours)
        rows = [
            (item_link(*found.item), headings.get(found.item, ""), f"{found.similarity:.4f}") for found in neighbours
        ]
        section = neighbour_section(("Item", "Heading", "Similarity"), rows, has_texts=True)
        return {"text": text, "note": note, "sections": [section]}


@admin.register(Item)
class ItemAdmin(ContentAdmin, ReindexingAdmin):
    list_display = ("id", "owner", "item", "length", "created_at", "error")
    list_select_related = ("owner", "source")
    list_filter = (OwnerFilter, SourceFilter, FailedFilter, UptoFilter)
    fields = ("owner", "source", "item", "opening_id", "length", "hash", "created_at", "error")
    readonly_fields = ("item", "hash")
    search_by = ("pk", "source__object_id", "owner")
    search_help_text = "A document's or a conversation's number, or an owner's name."
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
        found = Item.objects.filter(source__kind=kind, source__object_id=object_id, number=number).only("owner").first()
        if found is None or not self.has_view_permission(request):
            raise Http404
        if found.owner_id == request.user.pk:
            return redirect(adapter_of(kind).url(object_id, number))
        return redirect("admin:search_item_content", found.pk)

    def content_of(self, request: HttpRequest, obj: Item) -> dict[str, Any]:
        read = read_items(obj.source, obj.number, obj.number)
        text = item_texts(read[0]).embedded if read else ""
        return {"text": text or obj.heading, "heading": obj.heading}


@admin.register(Source)
class SourceAdmin(MetadataAdmin):
    """The sources of the index, without title and project."""

    list_display = ("id", "owner", "kind", "object_id", "item_count", "version", "archived", "updated_at")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, "kind", UptoFilter)
    fields = (
        "owner", "kind", "object_id", "origin", "archived", "item_count", "element_count", "version", "spoken_length",
        "created_at", "updated_at",
    )  # fmt: skip
    search_by = ("pk", "object_id", "owner")
    search_help_text = "A source's or a conversation's number, or an owner's name."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("title", "project")


@admin.register(SourceIndex)
class SourceIndexAdmin(ReindexingAdmin):
    """The index state of each source in each space.

    An action on a row marks the source's state in the active space.
    """

    list_display = ("id", "source", "owner", "space", "is_up_to_date", "error")
    list_select_related = ("owner", "space", "source")
    list_filter = (OwnerFilter, SourceFilter, IndexStateFilter, "space", UptoFilter)
    fields = (
        "source", "owner", "space", "is_up_to_date", "indexed_version", "noted_version", "dirty_from", "last_item",
        "passages", "refused", "attempts", "error", "updated_at",
    )  # fmt: skip
    readonly_fields = ("is_up_to_date", "updated_at")
    search_by = ("pk", "source__object_id", "owner")
    search_help_text = "Its or a conversation's number, or an owner's name."

    @admin.display(description="up to date", boolean=True)
    def is_up_to_date(self, obj: SourceIndex) -> bool:
        return obj.indexed_version == obj.source.version and not obj.error
