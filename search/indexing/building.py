"""Embeds sources in a new space while another one is active (docs/adr/0015-build-new-embedding-space-online.md)."""

import logging
import time
from collections.abc import Sequence

from django.db.models import Exists, OuterRef, Q, QuerySet

from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import building_space
from search.indexing.active import IndexResult, index_source
from search.indexing.batches import ITEMS_PER_BATCH
from search.models import Source, SourceIndex

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
            result = index_source(archive_id=archive_id, source_id=source_id, deadline=deadline, building=space)
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
            results[number] = index_source(archive_id=archive_id, source_id=number, deadline=deadline, building=space)
        except EmbeddingError as error:
            logger.warning("Source %s is not embedded in the space that is being built: %s", number, error)
    return results
