"""Background tasks of search: each loads rows by id, calls one function and returns a small dict."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from convmemory.core.queue.fair_queue import enqueue_for, owner_task, slice_end
from search.indexing.active import index_source
from search.indexing.building import build_beside
from search.indexing.packing import pack_owner
from search.indexing.sweeping import INDEX
from search.models import Source

# The pause before a source is tried again that another worker is indexing.
BUSY_PAUSE_S = 5.0


def enqueue_index(*, archive_id: int, source_id: int, as_of: datetime | None = None) -> None:
    """Enqueue a task that brings one source's index up to date.

    `as_of` is when the source was last used: of a large import, recent conversations are indexed before old ones.
    """
    enqueue_for(archive_id, INDEX, source_id, group="index", as_of=as_of)


def enqueue_sources(source_ids: Collection[int]) -> None:
    """Enqueue a task for each of these sources of any owner; only maintenance calls this."""
    chosen = Source.objects.filter(pk__in=source_ids).order_by("pk")
    for archive_id, source_id, updated_at in chosen.values_list("archive_id", "pk", "updated_at"):
        enqueue_index(archive_id=archive_id, source_id=source_id, as_of=updated_at)


@owner_task
def index(source_id: int, *, archive_id: int) -> dict[str, Any]:
    """Index one source until the slice ends, also in a space that is being built.

    The postings of all of the owner's sources come first: searches are slower until they are packed.
    """
    deadline = slice_end()
    pack_owner(archive_id, deadline=deadline)
    try:
        result = index_source(archive_id=archive_id, source_id=source_id, deadline=deadline)
    finally:
        beside = build_beside(archive_id=archive_id, source_id=source_id, deadline=deadline)
    done = {"items": result.items, "computed": result.computed, "failed": result.failed}
    if result.finished and beside.finished:
        return done
    return done | {"again_in_s": BUSY_PAUSE_S if result.busy or beside.busy else 0.0}
