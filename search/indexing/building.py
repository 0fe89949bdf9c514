"""Embeds sources in a new space while another one is active.

Reads items, writes passages, `ItemEmbedding` and `SourceIndex`. Lexical documents belong to no space and are not
changed. Items already in the space are found by content hash, so that a killed build continues where it stopped. See
docs/adr/0015-build-new-embedding-space-online.md.
"""

import logging
import time
from collections.abc import Sequence

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import building_space
from search.indexing.active import IndexResult, embed_missing, state_of
from search.indexing.batches import ITEMS_PER_BATCH, batches_of_items
from search.models import ItemEmbedding, Passage, Source, SourceIndex
from search.sources import adapter_of
from search.vectors.locking import derivation_lock, unless_deleted
from search.vectors.passages import drop_passages, run_alone
from search.vectors.texts import item_texts

# In items. New content of a longer source that the build has not reached is left to the build (ADR 15).
SMALL = ITEMS_PER_BATCH

logger = logging.getLogger(__name__)


def sources_to_build(space: EmbeddingSpace, scope: Q | None = None) -> QuerySet[Source]:
    """Return the sources in `scope` whose rows in the space are missing or out of date."""
    done = SourceIndex.objects.filter(space=space, source=OuterRef("pk"), indexed_version=OuterRef("version"), error="")
    return Source.objects.filter(scope or Q(), ~Exists(done), version__gt=0)


def archives_to_build(space: EmbeddingSpace) -> list[int]:
    """Return the archives that have such sources."""
    return list(sources_to_build(space).order_by("archive_id").values_list("archive_id", flat=True).distinct())


def build_archive(*, archive_id: int, space: EmbeddingSpace, deadline: float) -> IndexResult:
    """Build the sources of an archive, those used last first, until `deadline`; further ones are left to the next call.

    A source that fails is logged. Raises: EmbedderUnavailable.
    """
    total = IndexResult()
    sources = sources_to_build(space, Q(archive_id=archive_id)).order_by("-updated_at")
    for source_id in sources.values_list("pk", flat=True):
        try:
            result = build_source(archive_id=archive_id, source_id=source_id, space=space, deadline=deadline)
        except EmbedderUnavailable:
            raise
        except EmbeddingError as error:
            logger.warning("Source %s is not embedded in the space that is being built: %s", source_id, error)
            continue
        total.items += result.items
        total.computed += result.computed
        total.failed += result.failed
        total.busy = total.busy or result.busy
        if time.monotonic() > deadline:
            total.finished = False
            break
    return total


def build_source(
    *, archive_id: int, source_id: int, space: EmbeddingSpace, deadline: float = float("inf")
) -> IndexResult:
    """Embed each item that is missing or stale in `space`, which is not the active one.

    Processes at least one batch, then stops once `time.monotonic()` passes `deadline`. Raises: EmbedderUnavailable.
    """
    result = IndexResult()
    with derivation_lock(source_id, AdvisoryLock.BUILDING) as is_locked, unless_deleted(archive_id, source_id):
        if not is_locked:
            return IndexResult(finished=False, busy=True)
        of_archive = Source.objects.filter(pk=source_id, archive_id=archive_id, version__gt=0)
        while (source := of_archive.first()) is not None:
            state = state_of(source, space)
            if state.indexed_version == source.version and not state.error:
                break
            if not _build(source, state, space, result, deadline):
                result.finished = False
                break
    return result


def build_beside(*, archive_id: int, source_ids: Sequence[int], deadline: float) -> dict[int, IndexResult]:
    """Embed new content of each source in the space that is being built, if there is one; return the results.

    A source that the build will reach is left to it. A failure is only recorded in the source's state.
    """
    results = {number: IndexResult() for number in source_ids}
    space = building_space()
    if space is None:
        return results
    reached = SourceIndex.objects.filter(source=OuterRef("pk"), space=space, indexed_version__gt=0)
    sources = Source.objects.filter(pk__in=source_ids, archive_id=archive_id)
    for number in sources.filter(Q(item_count__lte=SMALL) | Exists(reached)).values_list("pk", flat=True):
        try:
            results[number] = build_source(archive_id=archive_id, source_id=number, space=space, deadline=deadline)
        except EmbeddingError as error:
            logger.warning("Source %s is not embedded in the space that is being built: %s", number, error)
    return results


def _build(source: Source, state: SourceIndex, space: EmbeddingSpace, result: IndexResult, deadline: float) -> bool:
    """Go through all items; return False if time ran out."""
    version = source.version
    ItemEmbedding.objects.filter(source=source, space=space, item_number__gte=source.item_count).delete()
    drop_passages(source, first_item=source.item_count, spaces=[space])
    rows = SourceIndex.objects.filter(pk=state.pk)
    unchanged = rows.filter(noted_version=state.noted_version)
    refused: dict[int, str] = {}
    try:
        for batch in batches_of_items(source, 0):
            done = result.items
            if not adapter_of(source.kind).is_embedded:
                break
            texts = {item.number: item_texts(item) for item in batch.items}
            outcomes = run_alone(embed_missing(source, space, batch.items, texts, result, deadline))
            if outcomes is None:
                return False
            refused |= {number: error for number, error in outcomes.items() if error}
            rows.update(last_item=batch.last, updated_at=timezone.now())
            if result.items > done and batch.last < source.item_count - 1 and time.monotonic() > deadline:
                return False
    except EmbeddingError as error:
        rows.update(error=str(error)[:1000], updated_at=timezone.now())
        raise
    unchanged.update(noted_version=version, dirty_from=None)
    rows.update(
        indexed_version=version,
        last_item=source.item_count - 1,
        passages=Passage.objects.filter(source=source, space=space).count(),
        refused=refused,
        error="",
        updated_at=timezone.now(),
    )
    return True
