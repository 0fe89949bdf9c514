"""Brings the index of one source up to date: passages and item vectors, and words that no transaction stored.

In a space that is built while another one is active it writes passages and vectors alone; a killed build continues
(docs/adr/0015-build-new-embedding-space-online.md).

Reads items through the source's adapter, writes passages, `ItemEmbedding` and `SourceIndex`. Unchanged items
are recognised by content hash and space, and are not embedded again. Work is stored batch by batch, so that a killed
run loses at most one batch. An advisory lock, which ends with its connection, keeps two workers from indexing the same
source at once.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db import connection, transaction
from django.utils import timezone
from psycopg.types.json import Jsonb

from convmemory.core.errors import EmbeddingError
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import unknown_texts
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.indexing.batches import ItemBatch, batches_of_items
from search.indexing.documents import bring_up_layout, drop_words, store_missing_words, store_words
from search.indexing.packing import pack_source
from search.models import Item, ItemEmbedding, PassageBlock, Source, SourceIndex
from search.sources import ItemText, adapter_of
from search.vectors.locking import SourceGone, derivation_lock, lock_for_writing, lock_vectors, locked, unless_deleted
from search.vectors.passages import (
    EmbeddingSteps,
    draft_passages,
    drop_passages,
    new_passage_texts,
    run_alone,
    store_ahead,
    store_passages,
)
from search.vectors.texts import ItemTexts, item_texts


@dataclass(slots=True)
class IndexResult:
    """The outcome of one run.

    `finished` is False if time ran out, or with `busy` if another worker is indexing the source. `computed` counts the
    passages that a model embedded.
    """

    finished: bool = True
    busy: bool = False
    items: int = 0
    computed: int = 0
    failed: int = 0


def index_source(
    *, archive_id: int, source_id: int, deadline: float = float("inf"), building: EmbeddingSpace | None = None
) -> IndexResult:
    """Index one source alone, as `index_steps` describes."""
    return run_alone(index_steps(archive_id=archive_id, source_id=source_id, deadline=deadline, building=building))


def index_steps(
    *, archive_id: int, source_id: int, deadline: float, building: EmbeddingSpace | None = None
) -> EmbeddingSteps[IndexResult]:
    """Index each item of the source that is new, changed or missing in the active space, or in the one that is built.

    Lexical documents belong to no space: a build leaves them alone. Processes at least one batch, then stops once
    `time.monotonic()` passes `deadline`. Raises: EmbedderUnavailable, after the lexical documents are stored, so that
    full text search works without an embedder. A source that is deleted meanwhile counts as finished.
    """
    result = IndexResult()
    lock = AdvisoryLock.BUILDING if building else AdvisoryLock.INDEXING
    with derivation_lock(source_id, lock) as is_locked, unless_deleted(archive_id, source_id):
        if not is_locked:
            return IndexResult(finished=False, busy=True)
        of_archive = Source.objects.filter(pk=source_id, archive_id=archive_id, version__gt=0)
        while (source := of_archive.first()) is not None:
            if not building and not _complete_words(source, deadline):
                result.finished = False
                break
            space = building or active_space()
            state = state_of(source, space)
            if state.indexed_version == source.version and not state.error:
                break
            progress = yield from _index_from(source, state, space, result, deadline)
            if progress == "current":
                break
            if progress == "out of time":
                result.finished = False
                break
    return result


def _complete_words(source: Source, deadline: float) -> bool:
    """Store and pack the words that the source lacks; return False if time ran out."""
    if source.layout < Source.LAYOUT:
        bring_up_layout(source)
    if source.words_missing_from is not None:
        if not store_missing_words(source, deadline=deadline):
            return False
        source.refresh_from_db()
    if source.unpacked_from is not None:
        pack_source(source)
    return True


def state_of(source: Source, space: EmbeddingSpace) -> SourceIndex:
    """Return the state of the source in this space; in a new space no item is indexed. Raises: SourceGone."""
    if state := SourceIndex.objects.filter(source=source, space=space).first():
        return state
    new = {"archive_id": source.archive_id, "seen_version": source.version, "dirty_from": 0}
    with transaction.atomic():
        if locked(source) is None:
            raise SourceGone
        return SourceIndex.objects.get_or_create(source=source, space=space, defaults=new)[0]


def _index_from(
    source: Source, state: SourceIndex, space: EmbeddingSpace, result: IndexResult, deadline: float
) -> EmbeddingSteps[Literal["current", "changed", "out of time"]]:
    """Index from the first item that may have changed; return "changed" if the source has changed meanwhile."""
    # A change that is noted while this runs must not be overwritten: the next round indexes it.
    unchanged = SourceIndex.objects.filter(pk=state.pk, seen_version=state.seen_version)
    _drop_deleted_items(source)
    first_dirty = 0
    if space.is_active:
        every_change_noted = state.seen_version == source.version
        first_dirty = state.dirty_from if every_change_noted and state.dirty_from is not None else 0
    refused: dict[int, str] = {}
    try:
        for batch in batches_of_items(source, first_dirty):
            done = result.items
            errors = yield from _index_items(source, space, batch, result, deadline)
            if errors is None:
                return "out of time"
            refused |= errors
            if batch.last < source.item_count - 1:
                unchanged.update(last_item=batch.last, dirty_from=batch.last + 1, updated_at=timezone.now())
            if result.items > done and batch.last < source.item_count - 1 and time.monotonic() > deadline:
                # Only after a batch that computed something: a run that stops without progress would repeat itself.
                return "out of time"
    except EmbeddingError as error:
        SourceIndex.objects.filter(pk=state.pk).update(
            error=str(error)[:1000], attempts=state.attempts + 1, updated_at=timezone.now()
        )
        raise
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "state": state.pk,
        "version": source.version,
        "seen_version": state.seen_version,
        "last_item": source.item_count - 1,
        "is_active": space.is_active,
        # Those of the active space stand at the items.
        "refused": Jsonb({} if space.is_active else refused),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "finish_index"), parameters)
        is_current = cursor.fetchone() == (True,)
    if adapter_of(source.kind).is_embedded:
        _drop_kept(source, space)
    return "current" if is_current else "changed"


def _drop_kept(source: Source, space: EmbeddingSpace) -> None:
    """Delete the passages that were kept in the trash, or came from another archive: those still there are stored."""
    kept = PassageBlock.objects.filter(archive_id=source.archive_id, source=source, space=space, is_kept=True)
    if kept.exists():
        with transaction.atomic():
            lock_vectors(source.pk, space.pk)  # of a source that is put into the trash meanwhile they stay
            kept.delete()


def _drop_deleted_items(source: Source) -> None:
    """Delete the rows of items that the source no longer has, in all spaces."""
    first = source.item_count
    parameters = {"owner": source.archive_id, "source": source.pk, "first": first}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "rows_past_end"), parameters)
        has_words, has_vectors, has_passages = cursor.fetchone()
    if has_words:
        with transaction.atomic():
            if (current := locked(source)) is not None:
                drop_words(current)
    vectors = 0
    if has_vectors:
        vectors, _ = ItemEmbedding.objects.filter(source=source, item_number__gte=first).delete()
    if vectors or has_passages:
        stale = PassageBlock.objects.filter(source=source, last_item__gte=first, is_kept=False).values("space")
        drop_passages(source, first_item=first, spaces=EmbeddingSpace.objects.filter(pk__in=stale))


def _index_items(
    source: Source, space: EmbeddingSpace, batch: ItemBatch, result: IndexResult, deadline: float
) -> EmbeddingSteps[dict[int, str] | None]:
    """Index a batch; return why the model refused items, None if it is one long item and time ran out within it."""
    texts = {item.number: item_texts(item) for item in batch.items}
    is_embedded = adapter_of(source.kind).is_embedded
    failed_before: set[int] = set()
    if space.is_active:
        stored = Item.objects.filter(source=source, number__range=(batch.first, batch.last))
        rows = list(stored.values_list("number", "content_hash", "error"))
        failed_before = {number for number, _, error in rows if error}
        digests = {number: bytes(digest) for number, digest, _ in rows}
        if any(digests.get(number) != text.content_hash for number, text in texts.items()):
            repaired = _repair_words(source, batch)
            result.items += 0 if is_embedded else repaired
    if not is_embedded:
        return {}
    outcomes = yield from embed_missing(source, space, batch.items, texts, result, deadline)
    if outcomes is None:
        return None
    errors = {number: error for number, error in outcomes.items() if error}
    if space.is_active:
        for number in errors.keys() | (failed_before & outcomes.keys()):
            Item.objects.filter(source=source, number=number).update(error=errors.get(number, "")[:1000])
    return errors


def _repair_words(source: Source, batch: ItemBatch) -> int:
    """Store the words of a batch's items that no transaction stored, as they are now; return the number of items."""
    with transaction.atomic():
        lock_for_writing(source.pk)
        current = locked(source)
        return store_words(current, first=batch.first, last=batch.last) if current is not None else 0


def embed_missing(
    source: Source,
    space: EmbeddingSpace,
    items: Sequence[ItemText],
    texts: dict[int, ItemTexts],
    result: IndexResult,
    deadline: float,
) -> EmbeddingSteps[dict[int, str] | None]:
    """Embed those of `items` that the space lacks or has with other content.

    Returns the error of each embedded item, "" on success, or None if `deadline` passed within a long item; finished
    parts are reused by the next run. Raises: EmbedderUnavailable.
    """
    embedded = ItemEmbedding.objects.filter(source=source, space=space, item_number__in=list(texts))
    current = {(n, bytes(digest)) for n, digest in embedded.values_list("item_number", "content_hash")}
    missing = {n: text for n, text in texts.items() if (n, text.content_hash) not in current}
    if not missing:
        return {}
    unembedded = [item for item in items if item.number in missing]
    elements = [element for item in unembedded for element in item.elements]
    drafts = list(draft_passages(elements))
    ahead = yield from store_ahead(source, space, drafts, out_of_time=lambda: time.monotonic() > deadline)
    result.computed += ahead.computed
    if not ahead.finished:
        return None
    hashes = {number: text.content_hash for number, text in missing.items()}
    computed, errors = yield from store_passages(source, space, unembedded, hashes, drafts)
    result.computed += computed
    result.items += len(missing)
    result.failed += len(errors)
    return {number: errors.get(number, "") for number in missing}


def texts_to_embed(source: Source, space: EmbeddingSpace) -> Iterator[str]:
    """Yield the passages of the source's items whose vectors are neither in the index nor in the cache."""
    for batch in batches_of_items(source, 0):
        elements = [element for item in batch.items for element in item.elements]
        texts = new_passage_texts(source.archive_id, space, elements)
        yield from unknown_texts(space, texts, archive_id=source.archive_id)
