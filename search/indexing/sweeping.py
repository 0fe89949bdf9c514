"""Finds work that was missed, and orphaned rows.

Missed: because of a lost task, a killed worker, or an endpoint that was down. Orphaned: rows of items that no longer
exist, and rows whose owner is not their source's, which nobody may find.
"""

from typing import Any

from django.db import connection
from django.db.models import CharField, Exists, F, FilteredRelation, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from convmemory.core.models import OwnerTask
from convmemory.core.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.indexing.layouts import find_lost_postings, pack_again
from search.models import Source
from search.sources import registered

INDEX = "search.tasks.index"
DERIVED_TABLES = {  # and the column that holds the item's number
    "search_item": "number",
    "search_itemembedding": "item_number",
    "search_passage": "item_number",
}


def with_state(space: EmbeddingSpace) -> QuerySet[Any, Any]:
    """All sources, each with its `state` in this space, if it has any."""
    return Source.objects.annotate(state=FilteredRelation("index", condition=Q(index__space=space)))


def is_behind() -> Q:
    """The condition, on sources with their state, that their index is out of date."""
    return Q(state__isnull=True) | ~Q(state__indexed_version=F("version"))


def sources_behind() -> QuerySet[Any, Any]:
    """Sources whose index in the active space is behind or has an older layout, those waiting longest first."""
    behind = is_behind() | Q(layout__lt=Source.LAYOUT)
    return with_state(active_space()).filter(behind, version__gt=0).order_by("updated_at")


def sources_to_index(*, limit: int) -> list[int]:
    """Ids of sources whose index is behind and that have no task in the queue, those waiting longest first.

    A source that failed is retried with growing pauses, as set by `EMBEDDING`; after that, `manage.py reembed --only
    failed` retries it.
    """
    due = Q(state__isnull=True) | Q(state__error="") | EMBEDDING.due(timezone.now(), prefix="state__")
    key = Concat(Value(f"{INDEX}:"), Cast(OuterRef("pk"), CharField()))
    in_hand = Exists(OwnerTask.objects.filter(key=key))
    return list(sources_behind().filter(due, ~in_hand).values_list("pk", flat=True)[:limit])


def reconcile_sources() -> int:
    """Correct the sources of every kind whose facts differ from their objects'; returns how many."""
    return sum(adapter.reconcile() for adapter in registered().values())


def count_orphans() -> dict[str, int]:
    """Orphaned rows by table, for tables that have any. Reads every derived row."""
    counts = {}
    with connection.cursor() as cursor:
        for table, number in DERIVED_TABLES.items():
            cursor.execute(_statement("count_orphans", table, number), {"space": active_space().pk})
            counts[table] = cursor.fetchone()[0]
    return {table: count for table, count in counts.items() if count}


def delete_orphans() -> int:
    """Delete orphaned rows; returns how many. Anything missing afterwards is found as damage and recreated; postings
    by the sweep."""
    deleted = 0
    with connection.cursor() as cursor:
        for table, number in DERIVED_TABLES.items():
            cursor.execute(_statement("delete_orphans", table, number), {"space": active_space().pk})
            deleted += cursor.rowcount
    if deleted:
        pack_again(find_lost_postings())
    return deleted


def _statement(name: str, table: str, number: str) -> str:
    return load_sql("search", name).replace("{table}", table).replace("{number}", number)
