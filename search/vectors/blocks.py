"""The codes of an owner's vectors, of passages and of items, packed into few large rows, and cached as arrays.

Each search asks PostgreSQL for a digest of the owner's current blocks; if it differs from that of the cached ones, the
missing blocks are fetched. The cache cannot be outdated: a block that changed has another id.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import BlockCache, Digest
from search.models import BinaryCodeBlock, Source
from search.retrieval.candidates import ITEM_BITS, ItemKeys, Scores, distinct, ranks_within
from search.vectors.codes import HALF, Codes, LongCodes, ShortCodes, decoded, encode, rotated, short_bytes

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

# With each item the last block of a source is written again: some 50 KB if an item has eight passages (ADR 10).
ITEMS_PER_BLOCK = 32
ENTRY = np.dtype([
    ("id", ">i8"), ("element", ">i8"), ("item", ">i4"), ("start", ">i4"), ("end", ">i4"), ("part", ">i2"),
    ("kind", "u1"), ("asks", "u1"),
])  # fmt: skip
"""The entry of each vector in a block, in PostgreSQL's byte order: of a passage, or of an item (`OF_ITEM`)."""
OF_ITEM = 255
"""Stands in place of a passage's kind; the `part` is then the number of the item's chunk."""
MAX_CHUNK = 2**15 - 1  # chunks beyond have this number: only the first one is told apart
# Of an owner with more vectors, only the first parts of the codes are cached (ADR 10): so many whole ones take 13 MB.
LONG_UP_TO = 8_000
# The passages of an owner whose token vectors stay in memory: some 1.1 KB each.
TOKENS_CACHED, TOKENS_BYTES = 8_000, 1_100


@dataclass(frozen=True)
class Blocks:
    """The blocks of one owner in one space, (b,): ids, sources, sizes, kinds of sources; and all their vectors, (n,).

    `tokens` are the token vectors of passages that were read so far, by the passages' ids.
    """

    digest: Digest
    ids: NDArray[np.int64]
    sources: NDArray[np.int64]
    counts: NDArray[np.int64]
    source_kinds: Mapping[int, str]
    entries: NDArray[Any]
    codes: Codes
    tokens: dict[int, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        fixed = self.entries.nbytes + self.codes.size + len(self.tokens) * TOKENS_BYTES
        return fixed + 3 * self.ids.nbytes + 3 * 8 * len(self.entries)

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
        entries = self.entries[rows]
        kept = [(number, self.tokens[number]) for number in entries["id"].tolist() if number in self.tokens]
        return Blocks(
            self.digest, self.ids[stays], self.sources[stays], self.counts[stays], self.source_kinds, entries,
            self.codes.of(rows), dict(kept),
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
            self.tokens | other.tokens,
        )


@dataclass(frozen=True, slots=True)
class NearPassages:
    """Passages of some items, item by item, the nearest to the question first: entries, numbers of items, cosines."""

    entries: NDArray[Any]
    of_item: NDArray[np.int64]
    cosines: Scores

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.entries["id"].astype(np.int64)


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
            rows = rows[least(self._distances[rows], blocks.entries["id"], rows, limit)]
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
        best = first_of_each(of_item, -cosines, blocks.entries["id"][places], limit)
        return NearPassages(blocks.entries[places[best]], of_item[best], cosines[best])

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
    """The token vectors of some passages, by id: those in memory, and a query for the others, which has been sent."""

    def __init__(self, archive_id: int, blocks: Blocks, ids: Sequence[int]) -> None:
        self._blocks, self._ids = blocks, ids
        self._cached = {number: blocks.tokens[number] for number in ids if number in blocks.tokens}
        self._pending = None
        if missing := [number for number in ids if number not in self._cached]:
            parameters = {"owner": archive_id, "ids": missing}
            self._pending = PendingQuery(load_sql("search.vectors", "token_vectors"), parameters, keeps_plan=True)

    def read(self) -> list[bytes]:
        """Return the coded token vectors of each passage, b"" for one without any. Waits for the query."""
        if self._pending is None:
            return [self._cached[number] for number in self._ids]
        ((ids, tokens),) = self._pending.rows()
        fresh = dict.fromkeys(self._ids, b"") | self._cached | dict(zip(ids or (), tokens or (), strict=True))
        if len(self._blocks.tokens) > TOKENS_CACHED:
            self._blocks.tokens.clear()
        self._blocks.tokens.update(fresh)
        return [fresh[number] for number in self._ids]


def least(distances: NDArray[np.uint16], ids: NDArray[np.int64], rows: Places, limit: int) -> Places:
    """Return the places of the `limit` smallest distances; among ties for the last, the highest ids.

    The id of a place is that of its row in `ids`.
    """
    cutoff = int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))
    nearer, as_far = np.flatnonzero(distances < cutoff), np.flatnonzero(distances == cutoff)
    newest = as_far[np.argsort(-ids[rows[as_far]], kind="stable")]
    return np.concatenate([nearer, newest[: limit - len(nearer)]])


def first_of_each(
    groups: NDArray[np.int64], values: NDArray[Any], ids: NDArray[np.int64], limit: int
) -> NDArray[np.int64]:
    """Return the places of the `limit` least values of each group (sorted), in this order; of equals, the oldest."""
    order = np.lexsort((ids, values, groups))
    return order[ranks_within(np.bincount(groups)) < limit]


# 100,000 passages take 16 MB.
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
        "long_bytes": LONG_UP_TO * ENTRY.itemsize,
    }
    ((count, digest, is_short, ids, *fresh),) = PendingQuery(
        load_sql("search.vectors", "code_blocks"), parameters
    ).rows()
    if not count:
        return None
    if cached is not None and isinstance(cached.codes, ShortCodes) != is_short:
        return _read(archive_id, space, None)
    kept = cached.without(ids) if cached is not None else None
    if fresh[0] is None:
        return replace(kept, digest=(count, digest)) if kept is not None else None
    numbers, sources, kinds, packed, codes = fresh
    entries = np.frombuffer(b"".join(packed), ENTRY)
    short = ShortCodes.read(b"".join(codes), space.dimensions)
    read = Blocks(
        (count, digest),
        np.asarray(numbers, np.int64),
        np.asarray(sources, np.int64),
        np.array([len(data) // ENTRY.itemsize for data in packed], np.int64),
        dict(zip(sources, kinds, strict=True)),
        entries,
        *((short, {}) if is_short else _whole(archive_id, space, entries)),
    )
    return kept.joined(read) if kept is not None else read


def _whole(archive_id: int, space: EmbeddingSpace, entries: NDArray[Any]) -> tuple[LongCodes, dict[int, bytes]]:
    """Read the whole codes and token vectors of passages, and the vectors of items; zeros if gone."""
    of_items = entries["kind"] == OF_ITEM
    parameters = {
        "owner": archive_id,
        "passages": entries["id"][~of_items].tolist(),
        "items": entries["id"][of_items].tolist(),
    }
    ((ids, codes, tokens, item_ids, halves),) = PendingQuery(
        load_sql("search.vectors", "whole_codes"), parameters
    ).rows()
    vectors = np.frombuffer(halves or b"", HALF).reshape(-1, space.dimensions).astype(np.float32)
    matrix = np.zeros((len(entries), space.dimensions), np.float32)
    for chosen, numbers, values in (
        (~of_items, ids, decoded(codes or b"", space.dimensions)),
        (of_items, item_ids, rotated(unit_rows(vectors))),
    ):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(entries["id"][rows])]
        matrix[rows[np.isin(entries["id"][rows], numbers or [])]] = values
    return LongCodes(matrix), dict(zip(ids or (), tokens or (), strict=True))


def pack_codes(source: Source, space: EmbeddingSpace, items: Iterable[int]) -> None:
    """Repack the blocks of these items. Call it in the transaction that changes their passages or vectors.

    A block (`BinaryCodeBlock`) is never changed: a new one with another id replaces it, so that a process that cached
    the old one notices.
    """
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
        "of_item": OF_ITEM,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "item_vectors_to_pack"), parameters)
        rows = cursor.fetchall()
        halves = np.frombuffer(b"".join(bytes(vector) for *_, vector in rows), HALF).reshape(-1, space.dimensions)
        parameters |= {
            "ids": [row[0] for row in rows],
            "item_numbers": [row[1] for row in rows],
            "chunks": [min(row[2], MAX_CHUNK) for row in rows],
            "codes": encode(halves.astype(np.float32)),
        }
        cursor.execute(load_sql("search.vectors", "pack_codes"), parameters)


def drop_codes(source: Source, space: EmbeddingSpace, first_item: int) -> None:
    """Delete the codes of this item and of all later ones.

    Call it in the transaction that deletes their passages and vectors.
    """
    blocks = BinaryCodeBlock.objects.filter(source=source, space=space)
    blocks.filter(number__gt=first_item // ITEMS_PER_BLOCK).delete()
    pack_codes(source, space, [first_item])
