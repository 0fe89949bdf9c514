"""Brings the index of one source up to date: passages and item vectors, and words that no transaction stored.

Reads items through the source's adapter, writes passages, `ItemEmbedding` and `SourceIndex`. Unchanged items
are recognised by content hash and space, and are not embedded again. Work is stored batch by batch, so that a killed
run loses at most one batch. An advisory lock, which ends with its connection, keeps two workers from indexing the same
source at once.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import connection, transaction
from django.utils import timezone

from convmemory.core.errors import EmbeddingError
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import unknown_texts
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.index_signals import items_compared
from search.indexing.batches import ItemBatch, batches_of_items
from search.indexing.documents import bring_up_layout, drop_words, store_missing_words, store_words
from search.indexing.packing import pack_source
from search.models import BinaryCodeBlock, Item, ItemEmbedding, Source, SourceIndex
from search.sources import ItemText, adapter_of
from search.vectors.locking import SourceGone, derivation_lock, lock_for_writing, locked, unless_deleted
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


def index_source(*, archive_id: int, source_id: int, deadline: float = float("inf")) -> IndexResult:
    """Index one source alone, as `index_steps` describes."""
    return run_alone(index_steps(archive_id=archive_id, source_id=source_id, deadline=deadline))


def index_steps(*, archive_id: int, source_id: int, deadline: float) -> EmbeddingSteps[IndexResult]:
    """Index each item of the source that is new, changed or missing in the active space.

    Processes at least one batch, then stops once `time.monotonic()` passes `deadline`. Raises: EmbedderUnavailable,
    after the lexical documents are stored, so that full text search works without an embedder. A source that is deleted
    meanwhile counts as finished.
    """
    result = IndexResult()
    with derivation_lock(source_id) as is_locked, unless_deleted(archive_id, source_id):
        if not is_locked:
            return IndexResult(finished=False, busy=True)
        of_archive = Source.objects.filter(pk=source_id, archive_id=archive_id, version__gt=0)
        while (source := of_archive.first()) is not None:
            if source.layout < Source.LAYOUT:
                bring_up_layout(source)
            if source.words_missing_from is not None:
                if not store_missing_words(source, deadline=deadline):
                    result.finished = False
                    break
                source.refresh_from_db()
            if source.unpacked_from is not None:
                pack_source(source)
            space = active_space()
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


def state_of(source: Source, space: EmbeddingSpace) -> SourceIndex:
    """Return the state of the source in this space; in a new space no item is indexed. Raises: SourceGone."""
    if state := SourceIndex.objects.filter(source=source, space=space).first():
        return state
    new = {"archive_id": source.archive_id, "noted_version": source.version, "dirty_from": 0}
    with transaction.atomic():
        if locked(source) is None:
            raise SourceGone
        return SourceIndex.objects.get_or_create(source=source, space=space, defaults=new)[0]


def _index_from(
    source: Source, state: SourceIndex, space: EmbeddingSpace, result: IndexResult, deadline: float
) -> EmbeddingSteps[Literal["current", "changed", "out of time"]]:
    """Index from the first item that may have changed; return "changed" if the source has changed meanwhile."""
    # A change that is noted while this runs must not be overwritten: the next round indexes it.
    unchanged = SourceIndex.objects.filter(pk=state.pk, noted_version=state.noted_version)
    _drop_deleted_items(source, state)
    every_change_noted = state.noted_version == source.version
    first_dirty = state.dirty_from if every_change_noted and state.dirty_from is not None else 0
    items_compared.send(Source, source=source, first_item=first_dirty)
    try:
        for batch in batches_of_items(source, first_dirty):
            done = result.items
            if not (yield from _index_items(source, space, batch, result, deadline)):
                return "out of time"
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
    parameters = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "state": state.pk,
        "version": source.version,
        "noted_version": state.noted_version,
        "last_item": source.item_count - 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "finish_index"), parameters)
        return "current" if cursor.fetchone() == (True,) else "changed"


def _drop_deleted_items(source: Source, state: SourceIndex) -> None:
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
    if vectors or state.last_item >= first or has_passages:
        packed = BinaryCodeBlock.objects.filter(source=source).values("space")
        drop_passages(source, first_item=first, spaces=EmbeddingSpace.objects.filter(pk__in=packed))


def _index_items(
    source: Source, space: EmbeddingSpace, batch: ItemBatch, result: IndexResult, deadline: float
) -> EmbeddingSteps[bool]:
    """Index a batch; return False if it is one long item and time ran out within it."""
    texts = {item.number: item_texts(item) for item in batch.items}
    stored = Item.objects.filter(source=source, number__range=(batch.first, batch.last))
    rows = list(stored.values_list("number", "content_hash", "error"))
    digests = {number: digest for number, digest, _ in rows}
    if any(bytes(digests.get(n, b"")) != text.content_hash for n, text in texts.items()):
        repaired = _repair_words(source, batch)
        if not adapter_of(source.kind).is_embedded:
            result.items += repaired
    if not adapter_of(source.kind).is_embedded:
        return True
    outcomes = yield from embed_missing(source, space, batch.items, texts, result, deadline)
    if outcomes is None:
        return False
    _store_failures(source, outcomes, failed_before={number for number, _, error in rows if error})
    return True


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
    deadline: float = float("inf"),
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
    passages = yield from store_passages(source, space, unembedded, hashes, drafts)
    result.computed += passages.computed
    result.items += len(missing)
    result.failed += len(passages.errors)
    return {number: passages.errors.get(number, "") for number in missing}


def _store_failures(source: Source, outcomes: dict[int, str], *, failed_before: set[int]) -> None:
    for number, error in outcomes.items():
        if error or number in failed_before:
            Item.objects.filter(source=source, number=number).update(error=error[:1000])


# Lists the texts of a source that a space lacks, for callers that embed them in advance.


def texts_to_embed(source: Source, space: EmbeddingSpace) -> Iterator[str]:
    """Yield the passages of the source's items whose vectors are neither in the index nor in the cache."""
    for batch in batches_of_items(source, 0):
        elements = [element for item in batch.items for element in item.elements]
        texts = new_passage_texts(source.archive_id, space, elements)
        yield from unknown_texts(space, texts, archive_id=source.archive_id)
