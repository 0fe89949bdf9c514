"""The codes of passages' vectors, packed into few large rows, and cached as arrays for large owners.

Each search asks PostgreSQL for a digest of the owner's current blocks; if it differs from that of the cached ones, the
missing blocks are fetched. The cache cannot be outdated: a block that changed has another id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.token_codes import encode_vectors, similarities
from search.block_cache import NO_BLOCKS, BlockCache, Digest
from search.models import BinaryCodeBlock, Source
from search.retrieval.candidates import ITEM_BITS, ItemKeys, Scores, ranks_within
from search.vectors.codes import Parts, short_bytes

Words = NDArray[np.unsignedinteger[Any]]
_WORD_SIZES: Sequence[type[np.unsignedinteger[Any]]] = (np.uint64, np.uint32, np.uint16, np.uint8)


@dataclass(frozen=True, slots=True)
class Codes:
    """Passages (n,) by id, item and kind, whether they ask, and their codes.

    Of the codes only first parts are known: the bits of the first weight as machine words (words, n), `fine` (n,
    bytes) those of the second one, and `scales` (n,).
    """

    ids: NDArray[np.int64]
    items: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    asks: NDArray[np.bool_]
    words: Words
    fine: NDArray[np.uint8]
    scales: Vector

    @classmethod
    def unpacked(cls, entries: bytes, codes: bytes, dimensions: int) -> "Codes":
        """Create the values from the contents of blocks, concatenated."""
        entry = np.frombuffer(entries, ENTRY)
        parts = Parts.of(codes, dimensions, is_short=True)
        return cls(
            entry["id"].astype(np.int64), entry["item"].astype(np.int32), entry["kind"].copy(), entry["asks"] != 0,
            as_words(parts.planes[0]), parts.planes[1], parts.scales,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        arrays = (self.ids, self.items, self.kinds, self.asks, self.words, self.fine, self.scales)
        return sum(array.nbytes for array in arrays)

    def those(self, wanted: NDArray[np.bool_] | NDArray[np.int64]) -> "Codes":
        return Codes(
            self.ids[wanted], self.items[wanted], self.kinds[wanted], self.asks[wanted], self.words[:, wanted],
            self.fine[wanted], self.scales[wanted],
        )  # fmt: skip

    def cosines(self, places: NDArray[np.int64], question: Vector) -> Scores:
        """Return the approximate cosines of a question (dim,), rotated, to the passages at these places."""
        coarse = np.ascontiguousarray(self.words[:, places].T).view(np.uint8)
        return Parts((coarse, self.fine[places]), self.scales[places]).cosines(question)

    def are_of(self, kinds: Sequence[int]) -> NDArray[np.bool_]:
        """Return which passages are of one of these kinds."""
        wanted = np.zeros(256, np.bool_)
        wanted[list(kinds)] = True
        return wanted[self.kinds]

    def followed_by(self, other: "Codes") -> "Codes":
        return Codes(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.items, other.items]),
            np.concatenate([self.kinds, other.kinds]),
            np.concatenate([self.asks, other.asks]),
            np.concatenate([self.words, other.words], axis=1),
            np.concatenate([self.fine, other.fine]),
            np.concatenate([self.scales, other.scales]),
        )


def hamming_distances(words: Words, question: Vector) -> NDArray[np.uint16]:
    """Return the distances of binary codes (words, n) from the code of the question (dim,): (n,)."""
    code = np.frombuffer(encode_vectors(question[None]), np.uint8)
    differing = np.zeros(words.shape[1], np.uint16)
    for column, word in zip(words, as_words(code[None])[:, 0], strict=True):
        differing += np.bitwise_count(column ^ word)
    return differing


def code_similarities(words: Words, question: Vector) -> Scores:
    """Return the approximate cosines (n,) of the question (dim,) to vectors given by their binary codes (words, n)."""
    rows = np.ascontiguousarray(words.T).view(np.uint8)
    (found,) = similarities(question[None], rows)
    return np.asarray(found, np.float32)


def first_of_each(
    groups: NDArray[np.int64], values: NDArray[Any], ids: NDArray[np.int64], limit: int
) -> NDArray[np.int64]:
    """Return the places of the `limit` least values of each group (sorted), in this order; of equals, the oldest."""
    order = np.lexsort((ids, values, groups))
    return order[ranks_within(np.bincount(groups)) < limit]


def as_words(rows: NDArray[np.uint8]) -> Words:
    """Convert rows of bytes (n, bytes) to columns of the largest machine words that fit: (words, n)."""
    word = next(word for word in _WORD_SIZES if rows.shape[1] % np.dtype(word).itemsize == 0)
    return np.ascontiguousarray(np.ascontiguousarray(rows).view(word).T)


@dataclass(frozen=True)
class Blocks:
    """The blocks of one owner in one space, (b,): ids, sources, numbers of passages; and the passages, (n,)."""

    digest: Digest
    ids: NDArray[np.int64]
    sources: NDArray[np.int64]
    counts: NDArray[np.int64]
    codes: Codes

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self.codes.size + 3 * self.ids.nbytes + 3 * self.codes.ids.nbytes

    @cached_property
    def items(self) -> ItemKeys:
        """Return the item of each passage."""
        return (np.repeat(self.sources, self.counts) << ITEM_BITS) | self.codes.items

    @cached_property
    def kinds(self) -> frozenset[int]:
        """Return the kinds of all passages."""
        return frozenset(np.unique(self.codes.kinds).tolist())

    @cached_property
    def by_item(self) -> tuple[ItemKeys, NDArray[np.int64]]:
        """Return the items of the passages, sorted, and the passages' places in this order."""
        order = np.argsort(self.items, kind="stable")
        return self.items[order], order


@dataclass(frozen=True, slots=True)
class NearPassages:
    """Passages of some items, item by item, the nearest to the question first: ids, places of their items, cosines."""

    ids: NDArray[np.int64]
    of_item: NDArray[np.int64]
    cosines: Scores


@dataclass(frozen=True, slots=True)
class ScannedPassages:
    """The passages of an owner whose codes are compared with a question (dim,), rotated."""

    blocks: Blocks
    question: Vector

    def nearest_of_items(
        self, keys: ItemKeys, kinds: Sequence[int], limit: int, *, asking_alone: NDArray[np.bool_] | None = None
    ) -> NearPassages:
        """Return the nearest passages of each item, at most `limit`.

        Of items for which `asking_alone` (n,) is true, only passages that ask count.
        """
        codes = self.blocks.codes
        # The places of the passages of these items, item by item, and the number of each item's passages.
        ordered, places = self.blocks.by_item
        starts = np.searchsorted(ordered, keys)
        counts = np.searchsorted(ordered, keys, side="right") - starts
        places = places[np.repeat(starts, counts) + ranks_within(counts)]
        of_item = np.repeat(np.arange(len(keys)), counts)
        wanted = codes.are_of(kinds)[places]
        if asking_alone is not None:
            wanted &= codes.asks[places] | ~asking_alone[of_item]
        places, of_item = places[wanted], of_item[wanted]
        found = codes.cosines(places, self.question)
        best = first_of_each(of_item, -found, codes.ids[places], limit)
        return NearPassages(codes.ids[places[best]], of_item[best], found[best])


# 100,000 passages take 8 MB.
CACHE: BlockCache[Blocks] = BlockCache(max_bytes=256 * 2**20)


def send_digest_query(archive_id: int, space: EmbeddingSpace) -> PendingQuery:
    """Send the query for the digest of the owner's blocks."""
    return PendingQuery(load_sql("search", "code_digest"), {"owner": archive_id, "space": space.pk}, keeps_plan=True)


def send_digest_query_if_cached(archive_id: int, space: EmbeddingSpace) -> PendingQuery | None:
    """Send it for an owner whose blocks this process has cached, since the owner's search will need it."""
    return send_digest_query(archive_id, space) if CACHE.get(archive_id, space.pk) is not None else None


def current_blocks(archive_id: int, space: EmbeddingSpace, pending_digest: PendingQuery) -> Blocks | None:
    """Return the owner's current blocks, None if there are none. No query if the cached ones are current."""
    (digest,) = pending_digest.rows()
    if digest == NO_BLOCKS:
        CACHE.drop(archive_id, space.pk)
        return None
    cached = CACHE.get(archive_id, space.pk)
    if cached is None or cached.digest != digest:
        # Read the current blocks, except cached ones.
        known = [] if cached is None else cached.ids.tolist()
        parameters = {"owner": archive_id, "space": space.pk, "cached": known}
        ((count, digest, ids, *fresh),) = PendingQuery(load_sql("search.vectors", "code_blocks"), parameters).rows()
        if not count:
            cached = None
        else:
            kept = None
            if cached is not None:
                stays = np.isin(cached.ids, ids)
                codes = cached.codes.those(np.repeat(stays, cached.counts))
                kept = Blocks((count, digest), cached.ids[stays], cached.sources[stays], cached.counts[stays], codes)
            if fresh[0] is None:
                cached = kept
            else:
                read = _read((count, digest), space.dimensions, *fresh)
                cached = read
                if kept is not None:
                    cached = Blocks(
                        read.digest,
                        np.concatenate([kept.ids, read.ids]),
                        np.concatenate([kept.sources, read.sources]),
                        np.concatenate([kept.counts, read.counts]),
                        kept.codes.followed_by(read.codes),
                    )
        if cached is not None:
            CACHE.put(archive_id, space.pk, cached)
    return cached


def _read(
    digest: Digest,
    dimensions: int,
    ids: Sequence[int],
    sources: Sequence[int],
    entries: Sequence[bytes],
    codes: Sequence[bytes],
) -> Blocks:
    counts = np.array([len(entry) // ENTRY.itemsize for entry in entries], np.int64)
    contents = Codes.unpacked(b"".join(entries), b"".join(codes), dimensions)
    return Blocks(digest, np.asarray(ids, np.int64), np.asarray(sources, np.int64), counts, contents)


# --- codes ----------------------------------------------------------------------------------------
# Packs the first parts of the codes of passages' vectors, so that a search reads few large rows.
#
# A block (`BinaryCodeBlock`) contains the passages of consecutive items. It is created in the transaction that stores
# or deletes the passages, and never changed: a new block with another id replaces it, so that a process that cached
# the old one notices.


# With each item the last block of a source is written again: some 16 KB if an item has eight passages (ADR 10).
ITEMS_PER_BLOCK = 32
ENTRY = np.dtype([("id", ">i8"), ("item", ">i4"), ("kind", "u1"), ("asks", "u1")])
"""The entry of each passage in a block, in PostgreSQL's byte order."""


def pack_codes(source: Source, space: EmbeddingSpace, items: Iterable[int]) -> None:
    """Repack the blocks of these items. Call it in the transaction that changes their passages."""
    numbers = sorted({item // ITEMS_PER_BLOCK for item in items})
    if not numbers:
        return
    BinaryCodeBlock.objects.filter(source=source, space=space, number__in=numbers).delete()
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "numbers": numbers,
        "first": numbers[0] * ITEMS_PER_BLOCK,
        "last": (numbers[-1] + 1) * ITEMS_PER_BLOCK - 1,
        "items": ITEMS_PER_BLOCK,
        "bytes": short_bytes(space.dimensions),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "pack_codes"), parameters)


def drop_codes(source: Source, space: EmbeddingSpace, first_item: int) -> None:
    """Delete the codes of the passages of this item and all later ones.

    Call it in the transaction that deletes those passages.
    """
    blocks = BinaryCodeBlock.objects.filter(source=source, space=space)
    blocks.filter(number__gt=first_item // ITEMS_PER_BLOCK).delete()
    pack_codes(source, space, [first_item])
