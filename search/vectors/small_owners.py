"""Caches all vectors of small owners: of their items, and the coded ones of their passages with places and tokens.

A search of such an owner compares vectors in this process, and reads none from the database. Each search
asks for a digest of the owner's blocks of codes and item vectors; what changed is fetched. Passages are cached by the
block of their items' codes: whatever changes one of them packs a new block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import BlockCache
from search.retrieval.candidates import ItemKeys, Scores, item_keys, ranks_within
from search.vectors.blocks import ENTRY, ITEMS_PER_BLOCK, NearPassages, first_of_each
from search.vectors.codes import decoded

VectorsDigest = tuple[int, int, int, int, int]
"""The digests of the owner's blocks of codes and of the item vectors, and the number of passages."""
PASSAGE = np.dtype([
    ("id", ">i8"), ("source", ">i8"), ("element", ">i8"), ("item", ">i4"), ("start", ">i4"), ("end", ">i4"),
    ("token_bytes", ">i4"), ("part", ">i2"), ("kind", ">i2"), ("asks", ">i2"),
])  # fmt: skip
"""What the statement `small_owner_passages` says of each passage, in PostgreSQL's byte order."""
ITEM_VECTOR = np.dtype([("id", ">i8"), ("source", ">i8"), ("item", ">i4"), ("chunk", ">i4")])
"""What the statement `small_owner_items` says of each item vector."""
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """The passages of a block in the order of their items: entries (p,), decoded vectors (p, dim), rotated, and tokens.

    `tokens` (bytes,) are the coded token vectors of all of them, joined. `source_kind` is the kind of their source.
    """

    source_kind: str
    entries: NDArray[Any]
    vectors: Vector
    tokens: NDArray[np.uint8]


@dataclass(frozen=True)
class SmallOwner:
    """All vectors of one owner in one space.

    Passages (p,) are sorted by item, then id; `blocks` are their parts by the block's id. Item vectors (v,) are sorted
    by id: `item_entries`, and `item_vectors` (v, dim) of unit length.
    """

    digest: VectorsDigest
    blocks: Mapping[int, VectorBlock]
    entries: NDArray[Any]
    vectors: Vector
    tokens: NDArray[np.uint8]
    source_kinds: NDArray[np.str_]
    item_entries: NDArray[Any]
    item_vectors: Vector

    @classmethod
    def of(
        cls, digest: VectorsDigest, blocks: Mapping[int, VectorBlock], item_entries: NDArray[Any], item_vectors: Vector
    ) -> "SmallOwner":
        """Join the blocks, which become views of the joined arrays."""
        ordered = dict(sorted(blocks.items(), key=lambda block: block[1].entries[0][["source", "item"]].tolist()))
        entries = np.concatenate([np.empty(0, PASSAGE), *(block.entries for block in ordered.values())])
        vectors = np.concatenate([item_vectors[:0], *(block.vectors for block in ordered.values())])
        tokens = np.concatenate([np.empty(0, np.uint8), *(block.tokens for block in ordered.values())])
        views: dict[int, VectorBlock] = {}
        first = first_token = 0
        for number, block in ordered.items():
            last, last_token = first + len(block.entries), first_token + len(block.tokens)
            views[number] = VectorBlock(
                block.source_kind, entries[first:last], vectors[first:last], tokens[first_token:last_token]
            )
            first, first_token = last, last_token
        source_kinds = np.repeat(
            np.array([block.source_kind for block in ordered.values()], np.str_),
            [len(block.entries) for block in ordered.values()],
        )
        return cls(digest, views, entries, vectors, tokens, source_kinds, item_entries, item_vectors)

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        arrays = (self.entries, self.vectors, self.tokens, self.source_kinds, self.item_entries, self.item_vectors)
        return sum(array.nbytes for array in arrays) + 16 * len(self.entries)

    @cached_property
    def items(self) -> ItemKeys:
        """Return the item of each passage, ascending."""
        return item_keys(self.entries["source"], self.entries["item"])

    @cached_property
    def kinds(self) -> NDArray[np.int16]:
        """Return the kind of each passage."""
        return self.entries["kind"].astype(np.int16)

    @cached_property
    def items_of_vectors(self) -> ItemKeys:
        """Return the item of each item vector."""
        return item_keys(self.item_entries["source"], self.item_entries["item"])

    @cached_property
    def _token_ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.entries["token_bytes"], dtype=np.int64)

    def tokens_of(self, places: NDArray[np.int64], token_bytes: int) -> bytes:
        """Return the coded token vectors of these passages, joined; each vector has `token_bytes`."""
        counts = self.entries["token_bytes"][places] // token_bytes
        rows = np.repeat(self._token_ends[places] // token_bytes - counts, counts) + ranks_within(counts)
        return self.tokens.reshape(-1, token_bytes)[rows].tobytes()

    @cached_property
    def _first_chunks(self) -> NDArray[np.int64]:
        """Return the places of the items' first chunks, in the order of the items."""
        first = np.flatnonzero(self.item_entries["chunk"] == 0)
        return first[np.argsort(self.items_of_vectors[first])]

    def vectors_of_items(self, keys: ItemKeys) -> Vector:
        """Return the vector of each item's first chunk (n, dim); zeros for an item without a vector."""
        order = self._first_chunks
        found = np.zeros((len(keys), self.item_vectors.shape[1]), np.float32)
        if len(order):
            items = self.items_of_vectors[order]
            places = np.minimum(np.searchsorted(items, keys), len(items) - 1)
            inside = items[places] == keys
            found[inside] = self.item_vectors[order[places[inside]]]
        return found


@dataclass(frozen=True, slots=True)
class ComparedPassages:
    """The passages of a small owner and their cosines (p,) to a query."""

    owner: SmallOwner
    cosines: Scores

    def places_of_items(
        self, keys: ItemKeys, kinds: Sequence[int], limit: int, *, asking_alone: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the places of the nearest passages of each item, at most `limit`, and the number of each one's item.

        They come item by item, the nearest first. Of items for which `asking_alone` (n,) is true, only passages that
        ask count.
        """
        entries = self.owner.entries
        starts = np.searchsorted(self.owner.items, keys)
        counts = np.searchsorted(self.owner.items, keys, side="right") - starts
        places = np.repeat(starts, counts) + ranks_within(counts)
        of_item = np.repeat(np.arange(len(keys)), counts)
        wanted = np.isin(self.owner.kinds[places], kinds)
        if asking_alone is not None:
            wanted &= (entries["asks"][places] != 0) | ~asking_alone[of_item]
        places, of_item = places[wanted], of_item[wanted]
        nearest = first_of_each(of_item, -self.cosines[places], entries["id"][places], limit)
        return places[nearest], of_item[nearest]

    def nearest_of_items(self, keys: ItemKeys, kinds: Sequence[int], limit: int) -> NearPassages:
        """Return these passages as those of a large owner."""
        places, of_item = self.places_of_items(keys, kinds, limit)
        return NearPassages(self.owner.entries["id"][places].astype(np.int64), of_item, self.cosines[places])


SMALL_PASSAGES = 3_000  # of an owner with more, only the codes are cached (ADR 98)
PASSAGE_BYTES = 2_500  # with its share of the item vectors, at 384 dimensions
# 3,000 passages, as many as a small owner has, take 8 MB.
CACHE: BlockCache[SmallOwner] = BlockCache(max_bytes=128 * 2**20)


class PendingSmallOwner:
    """The query for the digest of an owner's vectors; sent at once if this process has cached them."""

    def __init__(self, owner_id: int, space: EmbeddingSpace) -> None:
        self._owner_id, self._space = owner_id, space
        self._pending = self._send() if CACHE.get(owner_id, space.pk) is not None else None

    def of(self, passages: int) -> SmallOwner | None:
        """Return the current vectors of an owner with this many passages, None if these are too many, or do not fit.

        Waits for the digest, and reads the vectors that this process lacks, if any.
        """
        if passages <= SMALL_PASSAGES:
            return self._current
        CACHE.drop(self._owner_id, self._space.pk)
        return None

    def _send(self) -> PendingQuery:
        parameters = {"owner": self._owner_id, "space": self._space.pk, "entry": ENTRY.itemsize}
        return PendingQuery(load_sql("search.vectors", "small_owner_digest"), parameters, keeps_plan=True)

    @cached_property
    def _current(self) -> SmallOwner | None:
        (digest,) = (self._pending or self._send()).rows()
        # The passages of a source that is being indexed are not among those that the caller counted.
        if digest[-1] > SMALL_PASSAGES:
            CACHE.drop(self._owner_id, self._space.pk)
            return None
        cached = CACHE.get(self._owner_id, self._space.pk)
        if cached is None and not CACHE.has_room(digest[-1] * PASSAGE_BYTES):
            return None
        if cached is None or cached.digest != digest:
            # Read the current vectors, except cached ones. They may be newer than the digest, which then differs from
            # the next one.
            space = self._space
            parameters: dict[str, Any] = {"owner": self._owner_id, "space": space.pk, "items": ITEMS_PER_BLOCK}
            blocks = {} if cached is None else dict(cached.blocks)
            rows = PendingQuery(
                load_sql("search.vectors", "small_owner_passages"), parameters | {"cached": list(blocks)}
            ).rows()
            current = {
                number: blocks.get(number)
                or VectorBlock(
                    kind,
                    np.frombuffer(passages, PASSAGE),
                    decoded(codes, space.dimensions),
                    np.frombuffer(tokens, np.uint8),
                )
                for number, kind, passages, codes, tokens in rows
            }
            entries, vectors = np.empty(0, ITEM_VECTOR), np.empty((0, space.dimensions), np.float32)
            if cached is not None:
                entries, vectors = cached.item_entries, cached.item_vectors
            ((ids, fresh, data),) = PendingQuery(
                load_sql("search.vectors", "small_owner_items"), parameters | {"cached": entries["id"].tolist()}
            ).rows()
            kept = np.isin(entries["id"], ids or [])
            entries = np.concatenate([entries[kept], np.frombuffer(fresh or b"", ITEM_VECTOR)])
            vectors = np.concatenate([vectors[kept], _vectors(space, data or b"")])
            cached = SmallOwner.of(digest, current, entries, vectors)
            CACHE.put(self._owner_id, self._space.pk, cached)
        return cached


def _vectors(space: EmbeddingSpace, data: bytes) -> Vector:
    return unit_rows(np.frombuffer(data, HALF).reshape(-1, space.dimensions).astype(np.float32))
