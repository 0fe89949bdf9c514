"""Finds work that was missed, and orphaned rows.

Work is missed because of a lost task, a killed worker, or an endpoint that was down. Orphaned are rows of items that no
longer exist, and rows whose owner is not their source's, which no search may find.
"""

from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.utils import timezone

from convmemory.core.models import OwnerTask
from convmemory.core.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.indexing.layouts import find_lost_postings, pack_again
from search.models import Passage, Source, TokenVectors
from search.sources import registered

INDEX = "search.tasks.index"
LOOKED_UP = 1_000  # sources at a time
DERIVED_TABLES = {  # each with the column of the item's number
    "search_item": "number",
    "search_itemembedding": "item_number",
    "search_passage": "item_number",
}


def with_state(space: EmbeddingSpace) -> QuerySet[Any, Any]:
    """Return all sources, each with its `state` in this space, if it has one."""
    return Source.objects.annotate(state=FilteredRelation("index", condition=Q(index__space=space)))


def is_behind() -> Q:
    """Return the condition, on sources with their state, that their index is out of date."""
    return Q(state__isnull=True) | ~Q(state__indexed_version=F("version"))


def sources_behind() -> QuerySet[Any, Any]:
    """Return the sources whose index in the active space is behind or has an older layout, those waiting longest
    first.
    """
    behind = is_behind() | Q(layout__lt=Source.LAYOUT)
    return with_state(active_space()).filter(behind, version__gt=0).order_by("updated_at")


def sources_to_index(*, limit: int) -> list[int]:
    """Return the ids of sources whose index is behind and that have no task in the queue, those waiting longest first.

    A source that failed is retried with growing pauses, as set by `EMBEDDING`; after that, `manage.py reembed --only
    failed` retries it.
    """
    due = Q(state__isnull=True) | Q(state__error="") | EMBEDDING.due(timezone.now(), prefix="state__")
    numbers = sources_behind().filter(due).values_list("pk", flat=True).iterator(chunk_size=LOOKED_UP)
    found: list[int] = []
    while len(found) < limit and (batch := list(islice(numbers, LOOKED_UP))):
        found += _not_in_hand(batch)
    return found[:limit]


def _not_in_hand(source_ids: list[int]) -> list[int]:
    """Return the sources without a task.

    A query of its own, because the queue may lie on another server than the sources.
    """
    keys = {f"{INDEX}:{number}": number for number in source_ids}
    in_hand = set(OwnerTask.objects.filter(key__in=keys).values_list("key", flat=True))
    return [number for key, number in keys.items() if key not in in_hand]


def reconcile_sources() -> int:
    """Correct the sources of all kinds whose facts differ from their objects'; return their number."""
    return sum(adapter.reconcile() for adapter in registered().values())


def count_orphans() -> dict[str, int]:
    """Return the number of orphaned rows by table, for tables that have any. Reads all derived rows."""
    counts = {}
    with connection.cursor() as cursor:
        for table, number in DERIVED_TABLES.items():
            cursor.execute(_statement("count_orphans", table, number), {"space": active_space().pk})
            counts[table] = cursor.fetchone()[0]
    return {table: count for table, count in counts.items() if count}


def delete_orphans() -> int:
    """Delete orphaned rows; return their number.

    Rows missing afterwards are found as damage and recreated; the sweep recreates postings.
    """
    deleted = sum(_delete_orphans(table, number) for table, number in DERIVED_TABLES.items())
    if deleted:
        pack_again(find_lost_postings())
    return deleted


def _delete_orphans(table: str, number: str) -> int:
    """Delete the orphaned rows of one table; token vectors of deleted passages go first."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_statement("orphans", table, number), {"space": active_space().pk})
        numbers = {"numbers": [row[0] for row in cursor.fetchall()]}
        if table == Passage._meta.db_table:
            cursor.execute(_statement("delete_numbered", TokenVectors._meta.db_table, "passage_id"), numbers)
        cursor.execute(_statement("delete_numbered", table, "id"), numbers)
        count: int = cursor.rowcount
    return count


def _statement(name: str, table: str, number: str) -> str:
    return load_sql("search.indexing", name).replace("{table}", table).replace("{number}", number)
