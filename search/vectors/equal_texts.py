"""Finds the passages of an owner whose texts are equal to some others, by the digests of their texts.

A process keeps the beginnings of the digests of the owners that it indexes, and reads those of new blocks alone.
Texts of other owners are not looked at: the saved time would reveal them (ADR 25).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import BlockCache, Digest
from search.models import PassageBlock
from search.vectors.packing import DIGEST_BYTES, StoredPassage, read_passages

BEGINNING = np.dtype(">u8")


@dataclass(frozen=True, slots=True)
class Digests:
    """The blocks of one owner in one space, (b,): ids and numbers of passages; the beginnings of all digests, (n,)."""

    digest: Digest
    ids: NDArray[np.int64]
    counts: NDArray[np.int64]
    beginnings: NDArray[np.uint64]

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self.beginnings.nbytes + self.ids.nbytes + self.counts.nbytes

    def of(self, ids: Sequence[int]) -> "Digests":
        """Return those of these blocks alone."""
        stays = np.isin(self.ids, ids)
        return replace(
            self,
            ids=self.ids[stays],
            counts=self.counts[stays],
            beginnings=self.beginnings[np.repeat(stays, self.counts)],
        )


NO_DIGESTS = Digests((0, 0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))
# 100,000 passages take .8 MB.
CACHE: BlockCache[Digests] = BlockCache(max_bytes=64 * 2**20)


def equal_passages(archive_id: int, space: EmbeddingSpace, digests: Sequence[UUID]) -> dict[UUID, StoredPassage]:
    """Return a passage with each of these texts, as far as the owner has one in the space, also in the trash.

    One query, one more if blocks have changed, and one if there are any.
    """
    if not digests:
        return {}
    parameters = {"owner": archive_id, "space": space.pk}
    ((count, digest),) = PendingQuery(load_sql("search.vectors", "digest_of_blocks"), parameters).rows()
    texts = CACHE.current(archive_id, space.pk, (count, digest), partial(_read, archive_id, space)) or NO_DIGESTS
    beginnings = np.array([int.from_bytes(digest.bytes[: BEGINNING.itemsize]) for digest in digests], np.uint64)
    matching = np.flatnonzero(np.isin(texts.beginnings, beginnings))
    # Of several blocks that contain a text, the first is read.
    _, first = np.unique(texts.beginnings[matching], return_index=True)
    of_block = np.searchsorted(np.cumsum(texts.counts), matching[first], side="right")
    ids = texts.ids[np.unique(of_block)].tolist()
    if not ids:
        return {}
    asked = set(digests)
    passages = read_passages(PassageBlock.objects.filter(archive_id=archive_id, pk__in=ids), space)
    return {passage.content_hash: passage for passage in passages if passage.content_hash in asked}


def _read(archive_id: int, space: EmbeddingSpace, cached: Digests | None) -> Digests:
    """Read the current digests, except cached ones."""
    kept = cached or NO_DIGESTS
    parameters = {"owner": archive_id, "space": space.pk, "cached": kept.ids.tolist()}
    statement = load_sql("search.vectors", "digests_of_texts")
    ((count, digest, ids, fresh, packed),) = PendingQuery(statement, parameters).rows()
    kept, packed = kept.of(ids or ()), packed or ()
    rows = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, DIGEST_BYTES)
    beginnings = np.ascontiguousarray(rows[:, : BEGINNING.itemsize]).view(BEGINNING)[:, 0].astype(np.uint64)
    return Digests(
        (count, digest),
        np.concatenate([kept.ids, np.asarray(fresh or (), np.int64)]),
        np.concatenate([kept.counts, np.array([len(data) // DIGEST_BYTES for data in packed], np.int64)]),
        np.concatenate([kept.beginnings, beginnings]),
    )
