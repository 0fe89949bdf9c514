"""Finds work that was missed, orphaned rows and defects of a space, and requests indexing again.

Work is missed because of a lost task, a killed worker, or an endpoint that was down. Orphaned are rows of items that no
longer exist, and rows whose owner is not their source's, which no search may find.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Literal, get_args

from django.db import connection, transaction
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Coalesce, Least
from django.utils import timezone

from convmemory.core.models import OwnerTask
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.indexing.building import sources_to_build
from search.indexing.packing import find_lost_postings, pack_again
from search.models import ItemEmbedding, PassageBlock, Source, SourceIndex
from search.sources import kinds_without_vectors, registered
from search.vectors.locking import locked
from search.vectors.passages import drop_passages

INDEX = "search.tasks.index"
LOOKED_UP = 1_000  # sources at a time
DERIVED_TABLES = {  # each with the column of the item's number
    "search_item": "number",
    "search_itemembedding": "item_number",
}


def with_state(space: EmbeddingSpace) -> QuerySet[Any, Any]:
    """Return all sources, each with its `state` in this space, if it has one."""
    return Source.objects.annotate(state=FilteredRelation("index", condition=Q(index__space=space)))


def is_behind() -> Q:
    """Return the condition, on sources with their state, that their index is out of date."""
    return Q(state__isnull=True) | ~Q(state__indexed_version=F("version"))


def sources_behind() -> QuerySet[Any, Any]:
    """Return the sources whose index in the active space is behind, or has an older layout or items without words or
    postings, those waiting longest first.
    """
    incomplete = Q(layout__lt=Source.LAYOUT) | Q(words_missing_from__isnull=False) | Q(unpacked_from__isnull=False)
    behind = is_behind() | incomplete
    return with_state(active_space()).filter(behind, version__gt=0).order_by("updated_at")


def of_older_layout_alone(source_ids: Collection[int]) -> int:
    """Return how many of these sources are indexed as they are, by an earlier version."""
    current = Q(state__indexed_version=F("version"), words_missing_from__isnull=True)
    return with_state(active_space()).filter(current, pk__in=source_ids, layout__lt=Source.LAYOUT).count()


def sources_to_index(*, limit: int) -> list[int]:
    """Return the ids of sources whose index is behind and that have no task in the queue, those waiting longest first.

    A source that failed is retried with growing pauses, as set by `EMBEDDING`; after that, `manage.py reembed --only
    failed` retries it.
    """
    due = Q(state__isnull=True) | Q(state__error="") | EMBEDDING.due(timezone.now(), prefix="state__")
    numbers = sources_behind().filter(due).values_list("pk", flat=True).iterator(chunk_size=LOOKED_UP)
    without_task: list[int] = []
    while len(without_task) < limit and (batch := list(islice(numbers, LOOKED_UP))):
        # A query of its own, because the queue may lie on another server than the sources.
        keys = {f"{INDEX}:{number}": number for number in batch}
        in_queue = set(OwnerTask.objects.filter(key__in=keys).values_list("key", flat=True))
        without_task += [number for key, number in keys.items() if key not in in_queue]
    return without_task[:limit]


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
    counts["search_passageblock"] = _blocks_past_end().count()
    return {table: count for table, count in counts.items() if count}


def delete_orphans() -> int:
    """Delete orphaned rows; return their number.

    Rows missing afterwards are found as damage and recreated; the sweep recreates postings.
    """
    deleted = 0
    with transaction.atomic(), connection.cursor() as cursor:
        for table, number in DERIVED_TABLES.items():
            cursor.execute(_statement("delete_orphans", table, number), {"space": active_space().pk})
            deleted += cursor.rowcount
        past_end = _blocks_past_end()
        deleted += past_end.count()
        for listed in Source.objects.filter(pk__in=past_end.values("source")):
            source = locked(listed)  # as it is now
            if source is None:
                continue
            spaces = EmbeddingSpace.objects.filter(pk__in=past_end.filter(source=source).values("space"))
            drop_passages(source, first_item=source.item_count, spaces=spaces)
    if deleted:
        pack_again(find_lost_postings())
    return deleted


def _blocks_past_end() -> "QuerySet[PassageBlock, PassageBlock]":
    """Return the blocks that contain anything of deleted items."""
    return PassageBlock.objects.filter(
        is_kept=False,
        last_item__gte=F("source__item_count"),
        source__index__space=active_space(),
        source__index__indexed_version=F("source__version"),
    )


def _statement(name: str, table: str, number: str) -> str:
    return load_sql("search.indexing", name).replace("{table}", table).replace("{number}", number)


Defect = Literal["missing", "stale", "failed"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)


# Recorded index states are compared with the rows themselves, so that damage is detected, too.
@dataclass(frozen=True, slots=True)
class SourceSelection:
    """A selection of sources by owner, id and time; None means any."""

    archive_id: int | None = None
    source_id: int | None = None
    since: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == SourceSelection()

    @property
    def condition(self) -> Q:
        """Return the condition on sources."""
        chosen = {"archive_id": self.archive_id, "pk": self.source_id, "updated_at__gte": self.since}
        return Q(**{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Damage:
    """Items of a source whose vectors do not match its lexical documents: the first of them, and their number."""

    source_id: int
    first_item: int
    items: int


def find_damage(
    space: EmbeddingSpace,
    defects: tuple[Defect, ...],
    selection: SourceSelection | None = None,
    *,
    limit: int | None = None,
) -> list[Damage]:
    """Return the sources that count as indexed in the active space but have items with these defects.

    Reads all items.
    """
    selection = selection or SourceSelection()
    parameters: dict[str, Any] = {
        "space": space.pk,
        "defects": list(defects),
        "without_vectors": kinds_without_vectors(),
        "owner": selection.archive_id,
        "source": selection.source_id,
        "since": selection.since,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "damaged_items"), parameters)
        return [Damage(*row) for row in cursor.fetchall()]


def mark_damage(damages: list[Damage], space: EmbeddingSpace) -> int:
    """Mark these sources as behind from their first damaged item on; return their number."""
    if not damages:
        return 0
    rows = SourceIndex.objects.filter(space=space, source_id__in=[damage.source_id for damage in damages])
    states = {state.source_id: state for state in rows}
    for damage in damages:
        if state := states.get(damage.source_id):
            state.indexed_version, state.attempts = 0, 0
            # A change may have been noted since the damage was found: the earlier item of the two counts.
            state.dirty_from = Least(Coalesce(F("dirty_from"), damage.first_item), damage.first_item)
    return SourceIndex.objects.bulk_update(states.values(), ["indexed_version", "dirty_from", "attempts"], 1_000)


def select_active(
    space: EmbeddingSpace, selection: SourceSelection, defects: tuple[Defect, ...], *, mark: bool = True
) -> dict[int, int]:
    """Return the sources to index again in the active space, with their numbers of items; with `mark`, record
    damage.
    """
    damages = find_damage(space, defects, selection)
    if mark:
        mark_damage(damages, space)
    damaged = Q(pk__in=[damage.source_id for damage in damages])
    return _with_items(space, selection.condition & (_behind(defects) | damaged))


def select_building(space: EmbeddingSpace, selection: SourceSelection, defects: tuple[Defect, ...]) -> dict[int, int]:
    """Return the sources that are not up to date in a space that is being built, with their numbers of items."""
    if defects == DEFECTS:
        return dict(sources_to_build(space, selection.condition).values_list("pk", "item_count"))
    refused = Q(state__isnull=False) & ~Q(state__refused={}) if "failed" in defects else Q(pk__in=[])
    return _with_items(space, selection.condition & (_behind(defects) | refused))


def _behind(defects: tuple[Defect, ...]) -> Q:
    """Return the condition on sources with their state in a space."""
    conditions: dict[Defect, Q] = {
        "missing": Q(state__isnull=True),
        "stale": Q(state__error="") & ~Q(state__indexed_version=F("version")),
        "failed": Q(state__isnull=False) & ~Q(state__error=""),
    }
    behind = Q(pk__in=[])
    for defect in defects:
        behind |= conditions[defect]
    return behind


def _with_items(space: EmbeddingSpace, condition: Q) -> dict[int, int]:
    chosen = with_state(space).filter(condition, version__gt=0).order_by("-item_count")
    return dict(chosen.values_list("pk", "item_count"))


STALE = b""  # the hash of no item


# These only mark rows; the caller enqueues. Searchable rows stay in place until their replacements are stored.
def retry_sources(source_ids: Collection[int]) -> None:
    """Mark these sources to be compared item by item, with all attempts restored."""
    SourceIndex.objects.filter(source_id__in=source_ids, space=active_space()).update(
        indexed_version=0, seen_version=F("seen_version") + 1, dirty_from=0, attempts=0, error=""
    )


def reembed_sources(source_ids: Collection[int]) -> None:
    """Mark all items of these sources to be embedded again in the active space."""
    _make_stale(Q(source_id__in=source_ids), source_ids)


def reembed_items(embedding_ids: Collection[int]) -> set[int]:
    """Mark these item vectors to be recomputed; return the sources to index, without those of other spaces."""
    chosen = Q(pk__in=embedding_ids)
    sources = ItemEmbedding.objects.filter(chosen, space=active_space()).values_list("source_id", flat=True)
    source_ids = set(sources)
    _make_stale(chosen, source_ids)
    return source_ids


def delete_item_embeddings(embedding_ids: Collection[int]) -> set[int]:
    """Delete these item vectors; return the sources to index, which recreates the vectors."""
    rows = ItemEmbedding.objects.filter(pk__in=embedding_ids)
    with transaction.atomic():
        source_ids = set(rows.filter(space=active_space()).values_list("source_id", flat=True))
        rows.delete()
        retry_sources(source_ids)
    return source_ids


def _make_stale(rows: Q, source_ids: Collection[int]) -> None:
    with transaction.atomic():
        ItemEmbedding.objects.filter(rows, space=active_space()).update(content_hash=STALE)
        retry_sources(source_ids)
