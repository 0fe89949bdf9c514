"""Requests indexing again, of failures or of vectors to be recomputed.

Only marks rows; the caller enqueues. Searchable rows stay in place until their replacements are stored.
"""

from collections.abc import Collection

from django.db import transaction
from django.db.models import F, Q

from convmemory.embeddings.spaces import active_space
from search.models import ItemEmbedding, SourceIndex

STALE = b""  # the hash of no item


def retry_sources(source_ids: Collection[int]) -> None:
    """Mark these sources to be compared item by item, with all attempts restored."""
    SourceIndex.objects.filter(source_id__in=source_ids, space=active_space()).update(
        indexed_version=0, noted_version=F("noted_version") + 1, dirty_from=0, attempts=0, error=""
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
