"""The index in the admin: turn vectors, turn documents, and how far each conversation is indexed."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse

from convmemory.accounts.content_access import may_read_content
from convmemory.accounts.content_admin import ContentAdmin
from convmemory.conversations.admin import content_link, turn_link
from convmemory.conversations.models import Conversation
from convmemory.core.admin_lists import ConversationFilter, OwnerFilter, UptoFilter
from convmemory.core.metadata_admin import DeletableAdmin, MetadataAdmin, Section, confirmed
from convmemory.embeddings.spaces import active_space
from search.indexing import reindexing
from search.indexing.embedded_text import embedded_text
from search.indexing.sweeping import is_behind
from search.models import ConversationIndex, SpaceProgress, TurnDocument, TurnEmbedding
from search.neighbours import questions_of, turn_neighbours
from search.tasks import enqueue_index
from search.vector_admin import neighbour_section, object_link, vector_section

MAX_BEHIND = 200  # conversations


class StaleFilter(admin.SimpleListFilter):
    """Vectors of turns that changed since, as far as the notes of the changes tell: those that wait longest."""

    title = "state"
    parameter_name = "stale"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Stale"), ("0", "Up to date")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "1":
            return queryset.filter(stale_turns())
        return queryset.exclude(stale_turns()) if self.value() == "0" else queryset


def stale_turns() -> Q:
    """The turns from which on something changed, of the `MAX_BEHIND` conversations that wait longest.

    With the numbers themselves: a join would make the database look at every vector's conversation.
    """
    behind = Conversation.objects.filter(is_behind(), turns_version__gt=0).order_by("updated_at")
    from_turn = dict(behind.values_list("pk", "index_state__dirty_from")[:MAX_BEHIND])
    changed = Q(conversation_id__in=[pk for pk, turn in from_turn.items() if not turn])
    for pk, turn in from_turn.items():
        if turn:
            changed |= Q(conversation_id=pk, turn_number__gte=turn)
    return Q(conversation_id__in=list(from_turn)) & changed


class IndexStateFilter(admin.SimpleListFilter):
    """How far a conversation's index is."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("stale", "Stale"), ("failed", "Failed"), ("done", "Up to date")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        stale = ~Q(indexed_version=F("conversation__turns_version")) | ~Q(space=active_space())
        if self.value() == "failed":
            return queryset.exclude(error="")
        if self.value() == "stale":
            return queryset.filter(stale)
        return queryset.exclude(stale) if self.value() == "done" else queryset


class FailedFilter(admin.SimpleListFilter):
    """Turns that could not be embedded."""

    title = "state"
    parameter_name = "failed"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", "Failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.exclude(error="") if self.value() == "1" else queryset


class ReindexingAdmin(MetadataAdmin):
    """The actions "retry" and "re-embed", for staff who may change index states."""

    actions: Sequence[str] = ("retry", "reembed")

    def has_reindex_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("search.change_conversationindex")

    @admin.action(permissions=["reindex"], description="Retry")
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        consequence = "A worker compares their conversations turn by turn and embeds what is missing or changed."
        return self._ask(request, queryset, "retry", "Retry", consequence, self.retry_rows)

    @admin.action(permissions=["reindex"], description="Re-embed")
    def reembed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        consequence = "A worker makes them again; search goes on with the present ones until then."
        return self._ask(request, queryset, "reembed", "Re-embed", consequence, self.reembed_rows)

    def retry_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.conversation_id for row in rows}
        reindexing.retry_conversations(ids)
        enqueue_all(ids)

    def reembed_rows(self, rows: Sequence[Any]) -> None:
        ids = {row.conversation_id for row in rows}
        reindexing.reembed_conversations(ids)
        enqueue_all(ids)

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


@admin.register(TurnEmbedding)
class TurnEmbeddingAdmin(ContentAdmin, ReindexingAdmin, DeletableAdmin):
    list_display = ("id", "owner", "turn", "chunk_number", "short_space", "token_count", "short_hash", "created_at")
    list_select_related = ("owner", "space")
    list_filter = (OwnerFilter, ConversationFilter, "space", StaleFilter, UptoFilter)
    fields = ("owner", "conversation", "turn", "chunk_number", "space", "token_count", "hash", "created_at")
    readonly_fields = ("turn", "hash")
    search_by = ("pk", "conversation_id", "content_hash", "owner")
    search_help_text = "A vector's or a conversation's number, a turn's content hash, or an owner's name."
    actions = ("retry", "reembed", "delete_chosen")
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("embedding")

    @admin.display(description="turn")
    def turn(self, obj: TurnEmbedding) -> str:
        return turn_link(obj.conversation_id, obj.turn_number)

    @admin.display(description="space")
    def short_space(self, obj: TurnEmbedding) -> str:
        return f"{obj.space.model}, {obj.space.dimensions}"

    @admin.display(description="content hash")
    def hash(self, obj: TurnEmbedding) -> str:
        return bytes(obj.content_hash).hex() or "stale, to be made again"

    @admin.display(description="content hash")
    def short_hash(self, obj: TurnEmbedding) -> str:
        return bytes(obj.content_hash).hex()[:12] or "stale"

    def reembed_rows(self, rows: Sequence[Any]) -> None:
        enqueue_all(reindexing.reembed_turns([row.pk for row in rows]))

    def delete_rows(self, rows: Sequence[Any]) -> None:
        enqueue_all(reindexing.delete_turn_embeddings([row.pk for row in rows]))

    def sections(self, request: HttpRequest, obj: TurnEmbedding) -> list[Section]:
        norm, neighbours = turn_neighbours(obj.pk)
        is_readable = may_read_content(reader=request.user, owner_id=obj.owner_id)
        rows = [
            (
                object_link("search_turnembedding", found.pk),
                turn_link(found.conversation_id, found.turn_number),
                found.number,
                f"{found.similarity:.4f}",
                content_link(found.conversation_id, found.turn_number) if is_readable else "",
            )
            for found in neighbours
        ]
        columns = ("Vector", "Turn", "Chunk", "Similarity", "Read")
        return [vector_section(norm, obj.space), neighbour_section(columns, rows)]

    def content_of(self, request: HttpRequest, obj: TurnEmbedding) -> dict[str, Any]:
        text, note = embedded_text(obj)
        neighbours = turn_neighbours(obj.pk)[1]
        questions = questions_of((found.conversation_id, found.turn_number) for found in neighbours)
        rows = [
            (
                turn_link(found.conversation_id, found.turn_number),
                questions.get((found.conversation_id, found.turn_number), ""),
                f"{found.similarity:.4f}",
            )
            for found in neighbours
        ]
        section = neighbour_section(("Turn", "Question", "Similarity"), rows)
        return {"text": text, "note": note, "sections": [section]}


@admin.register(TurnDocument)
class TurnDocumentAdmin(ContentAdmin, ReindexingAdmin):
    list_display = ("id", "owner", "turn", "length", "created_at", "error")
    list_select_related = ("owner",)
    list_filter = (OwnerFilter, ConversationFilter, FailedFilter, UptoFilter)
    fields = ("owner", "conversation", "turn", "message_id", "length", "hash", "created_at", "error")
    readonly_fields = ("turn", "hash")
    search_by = ("pk", "conversation_id", "owner")
    search_help_text = "A document's or a conversation's number, or an owner's name."
    content_template = "admin/passage_content.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("spoken", "unspoken", "question")

    @admin.display(description="turn")
    def turn(self, obj: TurnDocument) -> str:
        return turn_link(obj.conversation_id, obj.turn_number)

    @admin.display(description="content hash")
    def hash(self, obj: TurnDocument) -> str:
        return bytes(obj.content_hash).hex()

    def content_of(self, request: HttpRequest, obj: TurnDocument) -> dict[str, Any]:
        return {"text": obj.question, "note": "The turn's question, as hits show it."}


@admin.register(SpaceProgress)
class SpaceProgressAdmin(MetadataAdmin):
    """How far a space is that is built beside the active one; `manage.py reembed` works on it."""

    list_display = ("id", "owner", "conversation", "space", "indexed_version", "turns", "error", "updated_at")
    list_select_related = ("owner", "space", "conversation")
    list_filter = (OwnerFilter, ConversationFilter, "space", UptoFilter)
    fields = (
        "owner", "conversation", "space", "indexed_version", "turns", "passages", "refused", "error", "updated_at"
    )  # fmt: skip
    readonly_fields = ("updated_at",)
    search_by = ("pk", "conversation_id", "owner")
    search_help_text = "Its or a conversation's number, or an owner's name."


@admin.register(ConversationIndex)
class ConversationIndexAdmin(ReindexingAdmin):
    list_display = (
        "conversation_id", "owner", "space", "is_up_to_date", "last_embedded_turn_number", "passages", "attempts",
        "error", "updated_at",
    )  # fmt: skip
    list_select_related = ("owner", "space", "conversation")
    list_filter = (OwnerFilter, IndexStateFilter, "space", UptoFilter)
    fields = (
        "conversation", "owner", "space", "is_up_to_date", "indexed_version", "noted_version", "dirty_from",
        "last_embedded_turn_number", "passages", "spoken_length", "attempts", "error", "updated_at",
    )  # fmt: skip
    readonly_fields = ("is_up_to_date", "updated_at")
    search_by = ("pk", "owner")
    search_help_text = "A conversation's number, or an owner's name."

    @admin.display(description="up to date", boolean=True)
    def is_up_to_date(self, obj: ConversationIndex) -> bool:
        return obj.indexed_version == obj.conversation.turns_version and not obj.error


def enqueue_all(conversation_ids: Collection[int]) -> None:
    """Ask a worker for each of these conversations."""
    for conversation_id in sorted(conversation_ids):
        enqueue_index(conversation_id)
