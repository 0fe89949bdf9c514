"""Packs the passages of some items of a source into one row, and reads them again (`PassageBlock`).

The contents of a block are never changed: another one with another id replaces it, so that a process that cached the
old one notices.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.models import PassageBlock, Source
from search.retrieval.candidates import ITEM_BITS, ItemKeys, are_among, distinct, item_keys
from search.vectors.codes import HALF, code_bytes, encode, short_bytes

if TYPE_CHECKING:
    from django.db.models import QuerySet

# With each item the last block of a source is written again: some 60 KB if an item has eight passages.
ITEMS_PER_BLOCK = 8
ENTRY = np.dtype([
    ("element", ">i8"), ("item", ">i4"), ("start", ">i4"), ("end", ">i4"), ("part", ">i2"), ("kind", "u1"),
    ("asks", "u1"), ("tokens", ">u2"), ("words", ">u2"),
])  # fmt: skip
"""The entry of a passage: its place, its kind, whether it asks, how many tokens it has, and how many are words.

That of an item's vector (`OF_ITEM`) has the vector's id as `element`, and the number of the chunk as `part`.
"""
OF_ITEM = 255
"""Stands in place of a passage's kind."""
MAX_CHUNK = 2**15 - 1  # chunks beyond have this number: only the first one is told apart
DIGEST_BYTES = 16


class StoredPassage(NamedTuple):
    """One passage; `code` is that of its vector, `tokens` are those of its words, b"" without any."""

    element_id: int
    item_number: int
    start: int
    end: int
    part_index: int
    kind: int
    asks: bool
    token_count: int
    content_hash: UUID
    code: bytes
    tokens: bytes


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages of one source (n,): entries, digests of their texts (n, 16), whole codes (n, bytes), codes of words."""

    entries: NDArray[Any]
    digests: NDArray[np.uint8]
    codes: NDArray[np.uint8]
    tokens: Sequence[bytes]

    @classmethod
    def none(cls, space: EmbeddingSpace) -> "Passages":
        return cls(
            np.empty(0, ENTRY),
            np.empty((0, DIGEST_BYTES), np.uint8),
            np.empty((0, code_bytes(space.dimensions)), np.uint8),
            (),
        )

    @classmethod
    def of(cls, passages: Iterable[StoredPassage], space: EmbeddingSpace) -> "Passages":
        rows = list(passages)
        if not rows:
            return cls.none(space)
        token_bytes = max(space.token_dimensions // 8, 1)
        entries = np.array(
            [
                (p.element_id, p.item_number, p.start, p.end, p.part_index, p.kind, p.asks, p.token_count,
                 len(p.tokens) // token_bytes)
                for p in rows
            ],
            ENTRY,
        )  # fmt: skip
        return cls(
            entries,
            np.frombuffer(b"".join(p.content_hash.bytes for p in rows), np.uint8).reshape(-1, DIGEST_BYTES),
            np.frombuffer(b"".join(p.code for p in rows), np.uint8).reshape(len(rows), -1),
            [p.tokens for p in rows],
        )

    @classmethod
    def read(cls, blocks: Iterable[tuple[bytes | memoryview, ...]], space: EmbeddingSpace) -> "Passages":
        """Return the passages of blocks, each with its columns from `entries` to `tokens`."""
        short, token_bytes = short_bytes(space.dimensions), space.token_dimensions // 8
        none = cls.none(space)
        entries, digests, codes, all_tokens = [none.entries], [none.digests], [none.codes], list[bytes]()
        for packed, packed_digests, first, fine, tokens in (map(bytes, columns) for columns in blocks):
            own = np.frombuffer(packed, ENTRY)
            own = own[own["kind"] != OF_ITEM]
            if not len(own):
                continue
            entries.append(own)
            digests.append(np.frombuffer(packed_digests, np.uint8).reshape(-1, DIGEST_BYTES))
            parts = [np.frombuffer(first, np.uint8).reshape(-1, short)[: len(own)]]
            parts.append(np.frombuffer(fine, np.uint8).reshape(len(own), -1))
            codes.append(np.concatenate(parts, axis=1))
            ends = (np.cumsum(own["words"].astype(np.int64)) * token_bytes).tolist()
            all_tokens += [tokens[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        return cls(np.concatenate(entries), np.concatenate(digests), np.concatenate(codes), all_tokens)

    def chosen(self, rows: NDArray[Any]) -> "Passages":
        """Return these passages alone, by a mask or their places."""
        places = np.arange(len(self.entries))[rows]
        return Passages(
            self.entries[places], self.digests[places], self.codes[places], [self.tokens[at] for at in places.tolist()]
        )

    def joined(self, other: "Passages") -> "Passages":
        """Return these passages, then the others."""
        return Passages(
            np.concatenate([self.entries, other.entries]),
            np.concatenate([self.digests, other.digests]),
            np.concatenate([self.codes, other.codes]),
            [*self.tokens, *other.tokens],
        )

    def __iter__(self) -> Iterator[StoredPassage]:
        hashes = [UUID(bytes=digest.tobytes()) for digest in self.digests]
        for entry, digest, code, tokens in zip(self.entries.tolist(), hashes, self.codes, self.tokens, strict=True):
            element, item, start, end, part, kind, asks, count, _ = entry
            yield StoredPassage(
                element, item, start, end, part, kind, bool(asks), count, digest, code.tobytes(), tokens
            )

    def __len__(self) -> int:
        return len(self.entries)


def read_passages(blocks: "QuerySet[PassageBlock, PassageBlock]", space: EmbeddingSpace) -> Passages:
    """Return the passages of these blocks of one space, in the order of the items."""
    rows = blocks.order_by("source_id", "number", "is_kept")
    return Passages.read(rows.values_list("entries", "digests", "codes", "fine", "tokens"), space)


def repack(source: Source, space: EmbeddingSpace, passages: Passages, numbers: Collection[int]) -> None:
    """Replace the blocks with these numbers by `passages`, all of which belong to them, and the vectors of their items.

    Call it in the transaction that changes the vectors of the items.
    """
    if not numbers:
        return
    current_blocks_of(source, space).filter(number__in=numbers).delete()
    _insert(source, space, passages, _item_entries(source, space, sorted(numbers)), is_kept=False)


def keep(source: Source, space: EmbeddingSpace, passages: Passages) -> None:
    """Store passages where no search finds them, so that their texts are not embedded again."""
    _insert(source, space, passages, _no_items(space), is_kept=True)


ItemCodes = tuple[NDArray[Any], NDArray[np.uint8]]
"""The entries and the short codes (n, bytes) of the vectors of items."""


def _insert(source: Source, space: EmbeddingSpace, passages: Passages, items: ItemCodes, *, is_kept: bool) -> None:
    rows: list[tuple[Any, ...]] = []
    of_passages, of_items = (entries["item"] // ITEMS_PER_BLOCK for entries in (passages.entries, items[0]))
    short = short_bytes(space.dimensions)
    for number in sorted({*of_passages.tolist(), *of_items.tolist()}):
        inside = np.flatnonzero(of_passages == number)
        inside = inside[np.argsort(passages.entries["item"][inside], kind="stable")]
        vectors = np.flatnonzero(of_items == number)
        own = passages.chosen(inside)
        entries = np.concatenate([own.entries, items[0][vectors]]).astype(ENTRY)  # joining loses the order of bytes
        rows.append((
            number, int(entries["item"].max()), len(own), entries.tobytes(), own.digests.tobytes(),
            own.codes[:, :short].tobytes() + items[1][vectors].tobytes(), own.codes[:, short:].tobytes(),
            b"".join(own.tokens),
        ))  # fmt: skip
    columns = ("numbers", "last_items", "counts", "entries", "digests", "codes", "fine", "tokens")
    if rows:
        parameters: dict[str, Any] = {
            "owner": source.archive_id, "source": source.pk, "space": space.pk, "is_kept": is_kept
        }  # fmt: skip
        parameters |= dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
        with connection.cursor() as cursor:
            cursor.execute(load_sql("search.vectors", "insert_blocks"), parameters)


def _no_items(space: EmbeddingSpace) -> ItemCodes:
    return np.empty(0, ENTRY), np.empty((0, short_bytes(space.dimensions)), np.uint8)


def _item_entries(source: Source, space: EmbeddingSpace, numbers: Sequence[int]) -> ItemCodes:
    """Return the entries and the codes of the vectors of the items in some blocks."""
    parameters: dict[str, Any] = {
        "owner": source.archive_id, "source": source.pk, "space": space.pk, "numbers": list(numbers),
        "first": numbers[0] * ITEMS_PER_BLOCK, "last": (numbers[-1] + 1) * ITEMS_PER_BLOCK - 1,
        "items": ITEMS_PER_BLOCK,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "item_vectors_to_pack"), parameters)
        rows = cursor.fetchall()
    if not rows:
        return _no_items(space)
    entries, short = np.zeros(len(rows), ENTRY), short_bytes(space.dimensions)
    entries["element"], entries["item"] = [row[0] for row in rows], [row[1] for row in rows]
    entries["part"], entries["kind"] = [min(row[2], MAX_CHUNK) for row in rows], OF_ITEM
    halves = np.frombuffer(b"".join(bytes(vector) for *_, vector in rows), HALF).reshape(-1, space.dimensions)
    codes = b"".join(code[:short] for code in encode(halves.astype(np.float32)))
    return entries, np.frombuffer(codes, np.uint8).reshape(-1, short)


def current_blocks_of(source: Source, space: EmbeddingSpace) -> "QuerySet[PassageBlock, PassageBlock]":
    """Return the blocks of a source that searches read."""
    return PassageBlock.objects.filter(archive_id=source.archive_id, source=source, space=space, is_kept=False)


def numbers_with(source: Source, space: EmbeddingSpace, elements: Sequence[int]) -> set[int]:
    """Return the numbers of the blocks that contain passages of some elements. Reads the entries of the source."""
    blocks = current_blocks_of(source, space).values_list("number", "entries")
    return {
        number
        for number, packed in blocks
        for entries in (np.frombuffer(bytes(packed), ENTRY),)
        if np.isin(entries["element"][entries["kind"] != OF_ITEM], elements).any()
    }


def entries_of_items(
    archive_id: int, space: EmbeddingSpace | None, items: Collection[tuple[int, int]]
) -> dict[tuple[int, int], NDArray[Any]]:
    """Return the entries of the passages of some items (source, number), by item, in a space, or in any. One query."""
    if not items:
        return {}
    homes = sorted({(source, number // ITEMS_PER_BLOCK) for source, number in items})
    parameters = {
        "owner": archive_id,
        "space": space and space.pk,
        "sources": [source for source, _ in homes],
        "numbers": [number for _, number in homes],
    }
    pending = PendingQuery(load_sql("search.vectors", "entries_of_blocks"), parameters, keeps_plan=True)
    chosen, found = set(items), dict[tuple[int, int], Any]()
    for source, packed in pending.rows():
        entries = np.frombuffer(packed, ENTRY)
        entries = entries[entries["kind"] != OF_ITEM]
        for number in np.unique(entries["item"]).tolist():
            if (source, number) in chosen:
                found[source, number] = entries[entries["item"] == number]
    return found


def texts_and_tokens(items: ItemKeys, space: EmbeddingSpace, *, without: EmbeddingSpace | None) -> tuple[int, int]:
    """Return how many different texts the passages of these items have in a space, and how many tokens.

    Texts that their owners have in the other space do not count.
    """
    keys = distinct(items)
    blocks = PassageBlock.objects.filter(source__in=distinct(keys >> ITEM_BITS).tolist(), space=space, is_kept=False)
    texts = tokens = 0
    for archive_id in blocks.order_by("archive_id").values_list("archive_id", flat=True).distinct():
        there = PassageBlock.objects.filter(archive=archive_id, space=without) if without else blocks.none()
        seen = {
            bytes(digests[at : at + DIGEST_BYTES])
            for digests in there.values_list("digests", flat=True).iterator()
            for at in range(0, len(digests), DIGEST_BYTES)
        }
        columns = blocks.filter(archive=archive_id).values_list("source_id", "entries", "digests")
        for source_id, packed, digests in columns.iterator():
            entries = np.frombuffer(bytes(packed), ENTRY)
            inside = are_among(item_keys(np.full(len(entries), source_id), entries["item"].astype(np.int64)), keys)
            for at in np.flatnonzero(inside & (entries["kind"] != OF_ITEM)).tolist():
                text = bytes(digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES])
                if text not in seen:
                    seen.add(text)
                    texts, tokens = texts + 1, tokens + int(entries["tokens"][at])
    return texts, tokens
