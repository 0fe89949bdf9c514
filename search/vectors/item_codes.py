"""Caches the binary codes of large owners' item vectors as arrays.

Each search knows the item vector stored last of each source (`SourceIndex.newest_vector`); the codes of a source are
fetched if it differs from the cached one. Vectors are never changed but replaced by others with higher ids. Codes of
vectors that were only deleted may stay for a while: their ids find no row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import BlockCache
from search.retrieval.candidates import ITEM_BITS, NO_ITEMS, ItemKeys, item_keys
from search.vectors.blocks import Words, as_words

ENTRY = np.dtype([("id", ">i8"), ("item", ">i4")])
"""What the statement `item_codes` says of each vector."""


@dataclass(frozen=True, slots=True)
class ItemCodes:
    """Item vectors (n,) of one owner in one space by id and item, and their binary codes (words, n) as machine words.

    `sources` (s,) are the ids, sorted, of the sources of these vectors, and `newest` the vector of each stored last.
    """

    sources: NDArray[np.int64]
    newest: NDArray[np.int64]
    ids: NDArray[np.int64]
    items: ItemKeys
    words: Words

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self.sources.nbytes + self.newest.nbytes + self.ids.nbytes + self.items.nbytes + self.words.nbytes

    def lack(self, sources: NDArray[np.int64], newest: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these sources are missing here or have newer vectors."""
        if not len(self.sources):
            return np.ones(len(sources), np.bool_)
        places = np.minimum(np.searchsorted(self.sources, sources), len(self.sources) - 1)
        lacking: NDArray[np.bool_] = (self.sources[places] != sources) | (self.newest[places] != newest)
        return lacking

    def of(self, sources: NDArray[np.int64]) -> "ItemCodes":
        """Return the codes of these sources alone."""
        known = np.isin(self.sources, sources)
        wanted = np.isin(self.items >> ITEM_BITS, sources)
        return ItemCodes(
            self.sources[known], self.newest[known], self.ids[wanted], self.items[wanted], self.words[:, wanted]
        )

    def joined(self, other: "ItemCodes") -> "ItemCodes":
        """Join both, which have no source in common."""
        sources = np.concatenate([self.sources, other.sources])
        order = np.argsort(sources)
        return ItemCodes(
            sources[order],
            np.concatenate([self.newest, other.newest])[order],
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.items, other.items]),
            np.concatenate([self.words, other.words], axis=1),
        )


# 100,000 vectors take 6 MB.
CACHE: BlockCache[ItemCodes] = BlockCache(max_bytes=128 * 2**20)


def current_item_codes(
    archive_id: int, space: EmbeddingSpace, sources: NDArray[np.int64], newest: NDArray[np.int64], *, are_all: bool
) -> ItemCodes:
    """Return the codes of the owner's vectors, at least those in these sources (sorted) with these newest vectors.

    If these `are_all` sources, codes of others are dropped. No query if the cached codes are current.
    """
    cached = CACHE.get(archive_id, space.pk)
    if not cached:
        nothing = np.empty(0, np.int64)
        cached = ItemCodes(nothing, nothing, nothing, NO_ITEMS, _words([], space))
    lacking = cached.lack(sources, newest)
    if not lacking.any() and not (are_all and len(cached.sources) > len(sources)):
        return cached
    kept = sources[~lacking] if are_all else np.setdiff1d(cached.sources, sources[lacking])
    current = cached.of(kept)
    if lacking.any():
        current = current.joined(_fetched(archive_id, space, sources[lacking], newest[lacking]))
    CACHE.put(archive_id, space.pk, current)
    return current


def _fetched(
    archive_id: int, space: EmbeddingSpace, sources: NDArray[np.int64], newest: NDArray[np.int64]
) -> ItemCodes:
    parameters = {"owner": archive_id, "space": space.pk, "sources": sources.tolist()}
    rows = PendingQuery(load_sql("search", "item_codes"), parameters).rows()
    entries = [np.frombuffer(entries, ENTRY) for _, entries, _ in rows]
    of_source = np.repeat(np.array([source for source, *_ in rows], np.int64), [len(entry) for entry in entries])
    entry = np.concatenate(entries) if entries else np.empty(0, ENTRY)
    return ItemCodes(
        sources,
        newest,
        entry["id"].astype(np.int64),
        item_keys(of_source, entry["item"]),
        _words([codes for *_, codes in rows], space),
    )


def _words(codes: Sequence[bytes], space: EmbeddingSpace) -> Words:
    return as_words(np.frombuffer(b"".join(codes), np.uint8).reshape(-1, -(-space.dimensions // 8)))
