"""Background tasks of search: each loads rows by id, calls one function and returns a small dict."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from convmemory.core.models import OwnerTask
from convmemory.core.queue.fair_queue import end_more, enqueue_for, slice_end, take_more, task
from convmemory.embeddings.spaces import building_space
from search.indexing.active import IndexResult
from search.indexing.batches import ITEMS_PER_BATCH
from search.indexing.building import build_archive, build_beside
from search.indexing.packing import pack_owner
from search.indexing.sweeping import INDEX
from search.indexing.together import index_together
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


def enqueue_build(*, archive_id: int) -> None:
    """Enqueue a task that embeds an archive in the space that is being built, after all other work of its owner."""
    enqueue_for(archive_id, "search.tasks.build", group="build", as_of=datetime.min.replace(tzinfo=UTC))


@task()
def build(*, archive_id: int) -> dict[str, Any]:
    """Embed sources of one archive in the space that is being built, until the slice ends."""
    space = building_space()
    if space is None:
        return {}
    result = build_archive(archive_id=archive_id, space=space, deadline=slice_end())
    totals = {"items": result.items, "computed": result.computed, "failed": result.failed}
    return totals if result.finished else totals | {"again_in_s": 0.0}


@task()
def index(source_id: int, *, archive_id: int) -> dict[str, Any]:
    """Index one source until the slice ends, together with short ones that wait; also in a space that is being built.

    The postings of all of the owner's sources come first: searches are slower until they are packed.
    """
    deadline = slice_end()
    pack_owner(archive_id, deadline=deadline)
    more = take_more(partial(_short_ones, source_id))
    results: dict[int, IndexResult | Exception] = {}
    finished: set[int] = set()
    try:
        source_ids = [source_id, *(task.args[0] for task in more)]
        results = index_together(archive_id=archive_id, source_ids=source_ids, deadline=deadline)
        beside = build_beside(archive_id=archive_id, source_ids=list(results), deadline=deadline)
        finished = {
            number
            for number, result in results.items()
            if isinstance(result, IndexResult) and result.finished and beside[number].finished
        }
    finally:
        begun, done = ([task for task in more if task.args[0] in numbers] for numbers in (results, finished))
        end_more(more, begun=begun, finished=done)
    result = results[source_id]
    if isinstance(result, Exception):
        raise result
    indexed = [each for each in results.values() if isinstance(each, IndexResult)]
    totals = {name: sum(getattr(each, name) for each in indexed) for name in ("items", "computed", "failed")}
    if source_id in finished:
        return totals
    return totals | {"again_in_s": BUSY_PAUSE_S if result.busy or beside[source_id].busy else 0.0}


def _short_ones(source_id: int, tasks: Sequence[OwnerTask]) -> list[OwnerTask]:
    """Return the tasks whose source is short, if the one with this id is: a long one takes the slice alone."""
    numbers = [source_id, *(task.args[0] for task in tasks)]
    short = set(Source.objects.filter(pk__in=numbers, item_count__lte=ITEMS_PER_BATCH).values_list("pk", flat=True))
    return [task for task in tasks if source_id in short and task.args[0] in short]
