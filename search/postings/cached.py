"""The postings of items, packed into rows, and those of recent searchers cached as arrays.

Each search asks PostgreSQL for a digest of the owner's current blocks; missing blocks are fetched and become a further
segment. Small segments are merged into one, so that there are never many.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.core.text import quoted_lexeme
from search.block_cache import BlockCache, Digest
from search.models import PostingBlock, Source
from search.retrieval.candidates import NO_ITEMS, Ints, ItemKeys, Scores, item_keys

# A segment is merged with the one before it from this share of its size on, so that segments stay few and each posting
# is rarely copied.
MERGED_SHARE = 0.5

T = TypeVar("T", bound=np.generic)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The occurrences of words: for each posting the word's number, the item's place, the letter of its weight, the
    count.
    """

    words: Ints
    places: NDArray[np.int32]
    letters: NDArray[np.uint8]
    counts: NDArray[np.uint8]

    def of(self, chosen: Mask) -> "Occurrences":
        """Return the chosen occurrences."""
        return Occurrences(self.words[chosen], self.places[chosen], self.letters[chosen], self.counts[chosen])


@dataclass(frozen=True, slots=True)
class Segment:
    """Some blocks (b,) by id, their items (n,), and their postings (p,), grouped by `words` (w,).

    `starts` (w + 1,) is where the postings of each word begin; `items` numbers the items within the segment.
    """

    ids: Ints
    keys: ItemKeys
    lengths: Scores
    blocks: NDArray[np.int32]
    words: NDArray[np.uint64]
    starts: Ints
    items: NDArray[np.int32]
    letters: NDArray[np.uint8]
    counts: NDArray[np.uint8]

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return sum(getattr(self, name).nbytes for name in self.__slots__)

    @classmethod
    def of_postings(
        cls, ids: Ints, keys: ItemKeys, lengths: Scores, blocks: NDArray[np.int32],
        words: NDArray[np.uint64], items: NDArray[np.int32], letters: NDArray[np.uint8], counts: NDArray[np.uint8],
    ) -> "Segment":  # fmt: skip
        """Create a segment from postings in any order, each with its word."""
        order = np.argsort(words, kind="stable")
        distinct, starts = np.unique(words[order], return_index=True)
        ends = np.append(starts, len(words)).astype(np.int64)
        return cls(ids, keys, lengths, blocks, distinct, ends, items[order], letters[order], counts[order])

    def occurrences(self, words: NDArray[np.uint64]) -> Occurrences:
        """Return the postings of some words; `places` are the segment's own numbers of items."""
        at = np.searchsorted(self.words, words).clip(max=max(len(self.words) - 1, 0))
        occurring = np.flatnonzero(self.words[at] == words) if len(self.words) else np.empty(0, np.int64)
        first, last = self.starts[at[occurring]], self.starts[at[occurring] + 1]
        # Slices copy whole runs, which is faster than indexing single postings.
        runs = [slice(*ends) for ends in zip(first.tolist(), last.tolist(), strict=True)]
        return Occurrences(
            np.repeat(occurring, last - first), _joined(self.items, runs), _joined(self.letters, runs),
            _joined(self.counts, runs),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Postings:
    """All postings of an owner in one column. `keys` (n,) are the items, sorted, with their `lengths` in words.

    `places` gives, for each segment, the places of its items among the keys; -1 for items of blocks that were replaced.
    """

    digest: Digest
    segments: tuple[Segment, ...]
    keys: ItemKeys
    lengths: Scores
    places: tuple[NDArray[np.int32], ...]

    @classmethod
    def of_segments(cls, digest: Digest, segments: Sequence[Segment], ids: Ints) -> "Postings":
        """Create the postings from segments; `ids` are the current blocks."""
        alive = [np.isin(segment.ids, ids)[segment.blocks] for segment in segments]
        keys = np.concatenate([segment.keys[here] for segment, here in zip(segments, alive, strict=True)])
        lengths = np.concatenate([segment.lengths[here] for segment, here in zip(segments, alive, strict=True)])
        order = np.argsort(keys, kind="stable")
        places = []
        for segment, here in zip(segments, alive, strict=True):
            position = np.full(len(segment.keys), -1, np.int32)
            position[here] = np.searchsorted(keys[order], segment.keys[here])
            places.append(position)
        return cls(digest, tuple(segments), keys[order], lengths[order], tuple(places))

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return sum(segment.size for segment in self.segments) + self.keys.nbytes + self.lengths.nbytes

    def occurrences(self, lexemes: Sequence[str]) -> Occurrences:
        """Return the occurrences of the lexemes; `places` are places among the keys."""
        numbers = np.array([word_number(lexeme) for lexeme in lexemes], np.uint64)
        parts = []
        for segment, places in zip(self.segments, self.places, strict=True):
            of_segment = segment.occurrences(numbers)
            placed = replace(of_segment, places=places[of_segment.places])
            here = placed.places >= 0
            parts.append(placed if here.all() else placed.of(here))
        if len(parts) == 1:
            return parts[0]
        return Occurrences(
            np.concatenate([o.words for o in parts]),
            np.concatenate([o.places for o in parts]),
            np.concatenate([o.letters for o in parts]),
            np.concatenate([o.counts for o in parts]),
        )


# 20,000 turns of 750 words take about 40 MB.
CACHE: BlockCache[Postings] = BlockCache(max_bytes=256 * 2**20)


def _joined(values: NDArray[T], runs: Sequence[slice]) -> NDArray[T]:
    """Concatenate these runs of the values."""
    return np.concatenate([values[:0], *(values[run] for run in runs)])


def word_number(lexeme: str) -> int:
    """Return the number that represents the lexeme in a block."""
    return int.from_bytes(sha256(lexeme.encode()).digest()[:WORD_BYTES], "big")


def read_digest(archive_id: int, home: int) -> tuple[Digest, bool]:
    """Return the digest of the owner's blocks, and whether postings of some items are not packed yet. One query."""
    parameters = {"owner": archive_id, "home": home}
    ((count, digest, has_unpacked),) = PendingQuery(load_sql("search", "posting_digest"), parameters).rows()
    return (count, digest), has_unpacked


OccurrencesInItems = tuple[ItemKeys, Scores, Occurrences]
"""Items (n,), keys sorted, their lengths, and the occurrences of some words; `places` are places among the keys."""


def find_words(
    archive_id: int, home: int, digest: Digest, lexemes: Sequence[str], *, has_unpacked: bool
) -> list[OccurrencesInItems]:
    """Return the occurrences of the lexemes in the owner's items: in packed ones and in those without postings yet.

    Without postings to be packed no query is sent if the cached ones have this digest.
    """
    parts = []
    unpacked = _unpacked(archive_id, home, lexemes) if has_unpacked else None
    if has_unpacked:
        # An item that was packed meanwhile is in both, instead of in neither.
        digest, _ = read_digest(archive_id, home)
    postings = current_postings(archive_id, home, digest) or NOTHING
    if postings.segments:
        parts.append((postings.keys, postings.lengths, postings.occurrences(lexemes)))
    if unpacked is not None:
        keys, lengths, occurrences = unpacked
        is_packed = np.isin(keys, postings.keys)
        parts.append((keys, lengths, occurrences.of(~is_packed[occurrences.places])))
    return parts


def _unpacked(archive_id: int, home: int, lexemes: Sequence[str]) -> OccurrencesInItems | None:
    """Return the occurrences in items without postings, from their lexical documents."""
    statement = load_sql("search.postings", "unpacked_occurrences").replace("{column}", dict(HOMES)[home])
    any_of_them = " | ".join(map(quoted_lexeme, lexemes))
    parameters = {"owner": archive_id, "lexemes": list(lexemes), "any": any_of_them}
    ((words, sources, numbers, lengths, letters, counts),) = PendingQuery(statement, parameters).rows()
    if not words:
        return None
    keys, first, places = np.unique(item_keys(sources, numbers), return_index=True, return_inverse=True)
    occurrences = Occurrences(
        np.asarray(words, np.int64),
        places.astype(np.int32),
        np.asarray(letters, np.uint8),
        np.asarray(counts, np.uint8),  # a tsvector keeps at most 255 places of a word
    )
    return keys, np.asarray(lengths, np.float32)[first], occurrences


def current_postings(archive_id: int, home: int, digest: Digest) -> Postings | None:
    """Return the owner's current postings, None if there are none. No query if the cached ones are current."""
    return CACHE.current(archive_id, home, digest, partial(_renewed, archive_id, home))


def _renewed(archive_id: int, home: int, cached: Postings | None) -> Postings | None:
    """Read the current postings, except blocks that are cached."""
    segments = [] if cached is None else list(cached.segments)
    cached_ids = np.concatenate([segment.ids for segment in segments]).tolist() if segments else []
    parameters = {"owner": archive_id, "home": home, "cached": cached_ids}
    ((count, digest, ids, *fresh),) = PendingQuery(load_sql("search.postings", "posting_blocks"), parameters).rows()
    if not count:
        return None
    present = np.asarray(ids, np.int64)
    if fresh[0] is not None:
        segments.append(_read(*fresh))
    while len(segments) > 1 and len(segments[-1].items) >= MERGED_SHARE * len(segments[-2].items):
        segments[-2:] = [_merged(segments[-2:], present)]
    return Postings.of_segments((count, digest), segments, present)


def _read(
    ids: Sequence[int],
    sources: Sequence[int],
    items: Sequence[bytes],
    words: Sequence[bytes],
    sizes: Sequence[bytes],
    postings: Sequence[bytes],
) -> Segment:
    """Build the segment of some blocks."""
    described = np.frombuffer(b"".join(items), ITEM)
    blocks = np.repeat(np.arange(len(ids), dtype=np.int32), [len(data) // ITEM.itemsize for data in items])
    keys = item_keys(np.asarray(sources, np.int64)[blocks], described["number"])
    entries = np.frombuffer(b"".join(postings), POSTING)
    block_of = np.repeat(np.arange(len(ids)), [len(data) // POSTING.itemsize for data in postings])
    within = entries["place"] % ITEMS_PER_BLOCK
    local = np.full((len(ids), ITEMS_PER_BLOCK), -1, np.int32)
    local[blocks, described["number"] % ITEMS_PER_BLOCK] = np.arange(len(keys))
    return Segment.of_postings(
        np.asarray(ids, np.int64),
        keys,
        described["length"].astype(np.float32),
        blocks,
        np.repeat(_numbers(b"".join(words)), np.frombuffer(b"".join(sizes), np.uint8)),
        local[block_of, within],
        entries["place"] // ITEMS_PER_BLOCK,
        entries["count"].copy(),
    )


def _numbers(data: bytes) -> NDArray[np.uint64]:
    """Return the words as numbers."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, WORD_BYTES)
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, 8 - WORD_BYTES :] = rows
    return wide.view(">u8")[:, 0].astype(np.uint64)


def _merged(segments: Sequence[Segment], present: Ints) -> Segment:
    """Merge several segments into one, without replaced blocks."""
    parts: list[tuple[Any, ...]] = []
    blocks_before = items_before = 0
    for segment in segments:
        kept = np.isin(segment.ids, present)
        items = kept[segment.blocks]
        block_number = blocks_before + np.cumsum(kept) - 1
        item_number = items_before + np.cumsum(items) - 1
        postings = items[segment.items]
        words = np.repeat(segment.words, np.diff(segment.starts))
        parts.append((
            segment.ids[kept], segment.keys[items], segment.lengths[items],
            block_number[segment.blocks[items]].astype(np.int32), words[postings],
            item_number[segment.items[postings]].astype(np.int32), segment.letters[postings], segment.counts[postings],
        ))  # fmt: skip
        blocks_before += int(kept.sum())
        items_before += int(items.sum())
    return Segment.of_postings(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


NOTHING = Postings((0, 0), (), NO_ITEMS, np.empty(0, np.float32), ())

ITEMS_PER_BLOCK = 32
# Bytes of a word's SHA-256: of a million words hardly two have the same ones.
WORD_BYTES = 6
ITEM = np.dtype([("number", ">i4"), ("length", ">i4")])
"""The entry of each item in a block, in PostgreSQL's byte order."""
POSTING = np.dtype([("place", "u1"), ("count", "u1")])
"""An entry of a posting: `place` is the item's number in the block, plus 32 for each letter of its weight after A."""
HOMES: Sequence[tuple[int, str]] = ((PostingBlock.Home.SPOKEN, "spoken"), (PostingBlock.Home.UNSPOKEN, "unspoken"))


# A block (`PostingBlock`) contains the postings of consecutive items, made from their lexical documents. The
# transaction that changes these documents deletes their blocks, and a worker packs new ones; until then searches look
# at the documents themselves (ADR 97). A block is never changed: repacking replaces it by one with another id, so that
# a process that cached the old one notices.
def unpack_from(source: Source, first_item: int) -> int:
    """Delete the blocks of this item and all later ones; return the first item that has no block now.

    Call it in the transaction that changes these items, and note the number at the source.
    """
    number = first_item // ITEMS_PER_BLOCK
    PostingBlock.objects.filter(source=source, number__gte=number).delete()
    return number * ITEMS_PER_BLOCK


def pack_postings(source: Source, items: range) -> None:
    """Pack the blocks of these items, which have none. Call it in a transaction that has locked the source."""
    numbers = sorted({item // ITEMS_PER_BLOCK for item in items})
    if not numbers:
        return
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "numbers": numbers,
        "first": numbers[0] * ITEMS_PER_BLOCK,
        "last": (numbers[-1] + 1) * ITEMS_PER_BLOCK - 1,
        "items": ITEMS_PER_BLOCK,
        "word_bytes": WORD_BYTES,
    }
    parameters |= {column: int(home) for home, column in HOMES}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.postings", "pack_postings"), parameters)
