"""The blocks of an owner's passages, with the codes of the vectors of passages and of items, cached as arrays.

Each search asks PostgreSQL for a digest of the owner's current blocks; if it differs from that of the cached ones, the
missing blocks are fetched. The cache cannot be outdated: a block that changed has another id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import BlockCache, Digest
from search.retrieval.candidates import ITEM_BITS, ItemKeys, Scores, distinct, ranks_within
from search.vectors.codes import HALF, Codes, LongCodes, ShortCodes, decoded, rotated
from search.vectors.packing import ENTRY, OF_ITEM

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

# Of an owner with more passages, only the first parts of the codes are cached (ADR 10), and no token vectors: so many
# whole ones take 13 MB, their tokens 6 MB, the vectors of their items 2 MB.
SMALL = 8_000
# Token vectors that are so many bytes apart are read together: about a page of the table.
READ_TOGETHER = 2_000


@dataclass(frozen=True)
class Blocks:
    """The blocks of one owner in one space, (b,): ids, sources, sizes, kinds of sources; and all their vectors, (n,).

    `tokens` are the codes of the words of each block, None in a large archive, which reads them when they are needed;
    one word takes `token_bytes`.
    """

    digest: Digest
    ids: NDArray[np.int64]
    sources: NDArray[np.int64]
    counts: NDArray[np.int64]
    source_kinds: Mapping[int, str]
    entries: NDArray[Any]
    codes: Codes
    tokens: tuple[bytes, ...] | None
    token_bytes: int

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        fixed = self.entries.nbytes + self.codes.size + sum(map(len, self.tokens or ()))
        return fixed + 3 * self.ids.nbytes + 5 * 8 * len(self.entries)

    @cached_property
    def token_places(self) -> tuple[Places, Places]:
        """Return the block of each vector, by its number here, and where its tokens begin there, in bytes."""
        sizes = self.entries["words"].astype(np.int64) * self.token_bytes
        before = np.cumsum(sizes) - sizes
        firsts = np.cumsum(self.counts) - self.counts
        return np.repeat(np.arange(len(self.ids)), self.counts), before - np.repeat(before[firsts], self.counts)

    @cached_property
    def items(self) -> ItemKeys:
        """Return the item of each vector."""
        return (np.repeat(self.sources, self.counts) << ITEM_BITS) | self.entries["item"].astype(np.int64)

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """Return the kind of each vector."""
        return np.ascontiguousarray(self.entries["kind"])

    @cached_property
    def embedded_items(self) -> ItemKeys:
        """Return the items that have vectors of their own, sorted."""
        return distinct(self.items[self.kinds == OF_ITEM])

    @cached_property
    def by_item(self) -> tuple[ItemKeys, Places]:
        """Return the items of the vectors, sorted, and the vectors' places in this order."""
        order = np.argsort(self.items, kind="stable")
        return self.items[order], order

    def are_of(self, kinds: Sequence[int]) -> NDArray[np.bool_]:
        """Return which of the kinds, 0 to 255, are among these."""
        among = np.zeros(256, np.bool_)
        among[list(kinds)] = True
        return among

    def places_of(self, keys: ItemKeys) -> tuple[Places, Places]:
        """Return the places of all vectors of these items, item by item, and the number of each one's item."""
        ordered, places = self.by_item
        starts = np.searchsorted(ordered, keys)
        counts = np.searchsorted(ordered, keys, side="right") - starts
        return places[np.repeat(starts, counts) + ranks_within(counts)], np.repeat(np.arange(len(keys)), counts)

    def without(self, ids: Sequence[int]) -> "Blocks":
        """Return the blocks with these ids alone."""
        stays = np.isin(self.ids, ids)
        rows = np.repeat(stays, self.counts)
        tokens = self.tokens and tuple(self.tokens[at] for at in np.flatnonzero(stays).tolist())
        return Blocks(
            self.digest, self.ids[stays], self.sources[stays], self.counts[stays], self.source_kinds,
            self.entries[rows], self.codes.of(rows), tokens, self.token_bytes,
        )  # fmt: skip

    def joined(self, other: "Blocks") -> "Blocks":
        """Join both, which have no block in common; the digest is that of the other."""
        return Blocks(
            other.digest,
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.sources, other.sources]),
            np.concatenate([self.counts, other.counts]),
            {**self.source_kinds, **other.source_kinds},
            np.concatenate([self.entries, other.entries]),
            self.codes.joined(other.codes),
            None if self.tokens is None or other.tokens is None else self.tokens + other.tokens,
            other.token_bytes,
        )


@dataclass(frozen=True, slots=True)
class NearPassages:
    """Passages of some items, item by item, the nearest to the question first: their places, entries, numbers of items
    and cosines.
    """

    places: Places
    entries: NDArray[Any]
    of_item: NDArray[np.int64]
    cosines: Scores


@dataclass(frozen=True)
class ComparedVectors:
    """The vectors of an owner, and a question (dim,), rotated, with which they are compared."""

    blocks: Blocks
    question: Vector

    @cached_property
    def _cosines(self) -> Scores:
        """Return the cosines (n,) of all vectors."""
        return self.blocks.codes.cosines(self.question)

    @cached_property
    def _distances(self) -> NDArray[np.uint16]:
        """Return the Hamming distances (n,) of all short codes."""
        assert isinstance(self.blocks.codes, ShortCodes)
        return self.blocks.codes.distances(self.question)

    def nearest(self, kinds: Sequence[int], limit: int, admitted: Mask | None) -> tuple[ItemKeys, Scores]:
        """Return the items and the cosines of at most `limit` of the nearest vectors of these kinds, in any order.

        Short codes are compared by their first bits, and of the `limit` nearest the cosines are computed; of equally
        distant ones, the newest are taken. Items that are not `admitted` (n,) are left out.
        """
        blocks = self.blocks
        chosen = blocks.are_of(kinds)[blocks.kinds]
        if admitted is not None:
            chosen &= admitted
        rows = np.flatnonzero(chosen)
        if isinstance(blocks.codes, ShortCodes):
            rows = rows[least(self._distances[rows], blocks.items[rows], limit)]
            return blocks.items[rows], blocks.codes.cosines(self.question, rows)
        cosines = self._cosines[rows]
        if len(rows) > limit:
            first = np.argpartition(-cosines, limit)[:limit]
            rows, cosines = rows[first], cosines[first]
        return blocks.items[rows], cosines

    def nearest_of_items(
        self, keys: ItemKeys, kinds: Sequence[int], limit: int, *, asking_alone: Mask | None = None
    ) -> NearPassages:
        """Return the nearest passages of each item, at most `limit`.

        Of items for which `asking_alone` (n,) is true, only passages that ask count.
        """
        blocks = self.blocks
        places, of_item = blocks.places_of(keys)
        chosen = blocks.are_of(kinds)[blocks.kinds[places]]
        if asking_alone is not None:
            chosen &= (blocks.entries["asks"][places] != 0) | ~asking_alone[of_item]
        places, of_item = places[chosen], of_item[chosen]
        cosines = blocks.codes.cosines(self.question, places)
        best = first_of_each(of_item, -cosines, limit)
        return NearPassages(places[best], blocks.entries[places[best]], of_item[best], cosines[best])

    def item_vectors(self, keys: ItemKeys) -> Vector:
        """Return the vector of each item's first chunk (n, dim), rotated; zeros for an item without a vector."""
        places, of_item = self.blocks.places_of(keys)
        chosen = (self.blocks.kinds[places] == OF_ITEM) & (self.blocks.entries["part"][places] == 0)
        vectors = np.zeros((len(keys), len(self.question)), np.float32)
        vectors[of_item[chosen]] = self.blocks.codes.of(places[chosen]).vectors()[:, : len(self.question)]
        return vectors

    def mean_cosines(self, sources: Sequence[int]) -> dict[int, float]:
        """Return the cosines of the mean vectors of the items of some sources, by source; none for one without any."""
        homes = self.blocks.items >> ITEM_BITS
        rows = np.flatnonzero((self.blocks.kinds == OF_ITEM) & np.isin(homes, sources))
        having, of_source = np.unique(homes[rows], return_inverse=True)
        sums = np.zeros((len(having), len(self.question)), np.float32)
        np.add.at(sums, of_source, self.blocks.codes.of(rows).vectors()[:, : len(self.question)])
        return dict(zip(having.tolist(), (unit_rows(sums) @ self.question).tolist(), strict=True))


class PendingTokens:
    """The codes of the words of some passages, by their places: from memory, or by a query that has been sent."""

    def __init__(self, archive_id: int, blocks: Blocks, places: Places) -> None:
        self._blocks, self._places = blocks, places
        of_block, firsts = blocks.token_places
        self._of_block, self._firsts = of_block[places], firsts[places]
        self._sizes = blocks.entries["words"][places].astype(np.int64) * blocks.token_bytes
        self._pending: PendingQuery | None = None
        if blocks.tokens is None and len(places):
            self._send(archive_id)

    def _send(self, archive_id: int) -> None:
        """Send the query, for slices that contain the words of passages near each other."""
        order = np.lexsort((self._firsts, self._of_block))
        of_block, firsts = self._of_block[order], self._firsts[order]
        ends = firsts + self._sizes[order]
        begins = np.concatenate([[True], (np.diff(of_block) != 0) | (firsts[1:] - ends[:-1] > READ_TOGETHER)])
        starts = np.flatnonzero(begins)
        slice_firsts = firsts[starts]
        slice_ends = np.maximum.reduceat(ends, starts)
        self._slice_of = np.empty(len(order), np.int64)
        self._slice_of[order] = np.cumsum(begins) - 1
        self._firsts = self._firsts - slice_firsts[self._slice_of]
        parameters = {
            "owner": archive_id,
            "blocks": self._blocks.ids[of_block[starts]].tolist(),
            "firsts": slice_firsts.tolist(),
            "sizes": (slice_ends - slice_firsts).tolist(),
        }
        self._pending = PendingQuery(load_sql("search.vectors", "token_slices"), parameters, keeps_plan=True)

    def read(self) -> list[bytes]:
        """Return the codes of each passage, b"" for one without any. Waits for the query."""
        texts: Sequence[bytes] = self._blocks.tokens or ()
        which = self._of_block
        if self._pending is not None:
            ((slices,),) = self._pending.rows()
            texts, which = slices or (), self._slice_of
        places = zip(which.tolist(), self._firsts.tolist(), self._sizes.tolist(), strict=True)
        return [texts[at][first : first + size] for at, first, size in places]


def least(distances: NDArray[np.uint16], items: ItemKeys, limit: int) -> Places:
    """Return the places of the `limit` smallest distances; among ties for the last, the newest items."""
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-items[as_far], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])


def first_of_each(groups: NDArray[np.int64], values: NDArray[Any], limit: int) -> NDArray[np.int64]:
    """Return the places of the `limit` least values of each group (sorted), in this order; of equals, the first."""
    order = np.lexsort((values, groups))
    return order[ranks_within(np.bincount(groups)) < limit]


# 100,000 passages take 17 MB.
CACHE: BlockCache[Blocks] = BlockCache(max_bytes=256 * 2**20)


def current_blocks(archive_id: int, space: EmbeddingSpace, digest: Digest) -> Blocks | None:
    """Return the owner's current blocks, None if there are none. No query if the cached ones have this digest."""
    return CACHE.current(archive_id, space.pk, digest, partial(_read, archive_id, space))


def _read(archive_id: int, space: EmbeddingSpace, cached: Blocks | None) -> Blocks | None:
    """Read the current blocks, except cached ones."""
    parameters: dict[str, Any] = {
        "owner": archive_id,
        "space": space.pk,
        "cached": [] if cached is None else cached.ids.tolist(),
        "small": SMALL,
    }
    ((count, digest, is_large, ids, *fresh),) = PendingQuery(
        load_sql("search.vectors", "passage_blocks"), parameters
    ).rows()
    if not count:
        return None
    if cached is not None and (cached.tokens is None) != is_large:
        return _read(archive_id, space, None)
    kept = cached.without(ids) if cached is not None else None
    if fresh[0] is None:
        return replace(kept, digest=(count, digest)) if kept is not None else None
    numbers, sources, kinds, packed, codes, fine, tokens = fresh
    entries = np.frombuffer(b"".join(packed), ENTRY)
    short = ShortCodes.read(b"".join(codes), space.dimensions)
    read = Blocks(
        (count, digest),
        np.asarray(numbers, np.int64),
        np.asarray(sources, np.int64),
        np.array([len(data) // ENTRY.itemsize for data in packed], np.int64),
        dict(zip(sources, kinds, strict=True)),
        entries,
        short if is_large else _whole(archive_id, space, entries, b"".join(codes), b"".join(fine)),
        None if is_large else tuple(tokens),
        space.token_dimensions // 8,
    )
    return kept.joined(read) if kept is not None else read


def _whole(archive_id: int, space: EmbeddingSpace, entries: NDArray[Any], codes: bytes, fine: bytes) -> LongCodes:
    """Return the whole codes of passages, and the vectors of items; zeros if one is gone."""
    of_items = entries["kind"] == OF_ITEM
    matrix = np.zeros((len(entries), space.dimensions), np.float32)
    if not of_items.all():
        first = np.frombuffer(codes, np.uint8).reshape(len(entries), -1)[~of_items]
        second = np.frombuffer(fine, np.uint8).reshape(len(first), -1)
        matrix[~of_items] = decoded(np.concatenate([first, second], axis=1).tobytes(), space.dimensions)
    rows = np.flatnonzero(of_items)
    rows = rows[np.argsort(entries["element"][rows])]
    parameters = {"owner": archive_id, "items": entries["element"][rows].tolist()}
    ((ids, halves),) = PendingQuery(load_sql("search.vectors", "item_vectors"), parameters).rows()
    vectors = np.frombuffer(halves or b"", HALF).reshape(-1, space.dimensions).astype(np.float32)
    matrix[rows[np.isin(entries["element"][rows], ids or [])]] = rotated(unit_rows(vectors))
    return LongCodes(matrix)
