"""The passages of a large owner nearest to a query vector by their signs, compared in this process.

PostgreSQL keeps the signs packed in blocks (`memory/signs.py`). A process holds those of the owners it searched
last; each search asks which blocks there are now, and is sent only those it does not hold. Nothing can be old: a
block that changed has another id. Why not in SQL: docs/adr/0010-exact-scan-or-index.md.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.reading import Filters
from convmemory.core.sql import Asked, load_sql
from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.models import EmbeddingSpace
from memory.signs import PLACE, sign_bytes
from search.candidates import TURN_BITS, TurnKeys, turn_keys
from search.filters import conversation_conditions, turn_conditions
from search.query_text import QueryText

HELD_BYTES = 256 * 2**20  # of all owners together; 100,000 passages take 6 MB

Mask = NDArray[np.bool_]
Words = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True)
class Signs:
    """Passages (n,) by id, turn and kind, and their signs (words, n), cut into machine words."""

    ids: NDArray[np.int64]
    turns: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    words: Words

    @classmethod
    def unpacked(cls, places: bytes, signs: bytes) -> "Signs":
        """What a block holds."""
        place = np.frombuffer(places, PLACE)
        rows = np.frombuffer(signs, np.uint8).reshape(len(place), -1)
        return cls(
            place["id"].astype(np.int64),
            place["turn"].astype(np.int32),
            place["kind"].astype(np.uint8),
            _as_words(rows),
        )

    @classmethod
    def joined(cls, pieces: Sequence["Signs"]) -> "Signs":
        return cls(
            np.concatenate([piece.ids for piece in pieces]),
            np.concatenate([piece.turns for piece in pieces]),
            np.concatenate([piece.kinds for piece in pieces]),
            np.concatenate([piece.words for piece in pieces], axis=1),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> "Signs":
        return Signs(self.ids[start:stop], self.turns[start:stop], self.kinds[start:stop], self.words[:, start:stop])

    def distances(self, question: Vector) -> NDArray[np.uint16]:
        """How many signs of each passage differ from those of the question (dim,): (n,)."""
        differing = np.zeros(len(self), np.uint16)
        for column, word in zip(self.words, _as_words(sign_bytes(question)[None])[:, 0], strict=True):
            differing += np.bitwise_count(column ^ word)
        return differing


def _as_words(rows: NDArray[np.uint8]) -> Words:
    """Rows of bytes (n, bytes) as columns of the largest machine words that fit: (words, n)."""
    word = np.uint64 if rows.shape[1] % 8 == 0 else np.uint8
    return np.ascontiguousarray(np.ascontiguousarray(rows).view(word).T)


@dataclass(frozen=True, slots=True)
class HeldBlocks:
    """The blocks of one owner in one space, (b,): ids (sorted), conversations, where each begins; their passages."""

    ids: NDArray[np.int64]
    conversations: NDArray[np.int64]
    starts: NDArray[np.int64]
    signs: Signs

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.starts, append=len(self.signs))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.signs.words.nbytes + len(self.signs) * 13

    def turn_keys(self) -> TurnKeys:
        """The turn of each passage."""
        return (np.repeat(self.conversations, self.counts) << TURN_BITS) | self.signs.turns

    def by_id(self) -> dict[int, Signs]:
        ends = [*self.starts[1:].tolist(), len(self.signs)]
        places = zip(self.ids.tolist(), self.starts.tolist(), ends, strict=True)
        return {block: self.signs.part(start, end) for block, start, end in places}


# --- what this process holds --------------------------------------------------------------------------


class _Holder:
    """The blocks of the owners that were searched last, shared by the process's threads."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, int], HeldBlocks] = OrderedDict()
        self._lock = Lock()

    def get(self, owner_id: int, space: EmbeddingSpace) -> HeldBlocks | None:
        with self._lock:
            return self._held.get((owner_id, space.pk))

    def put(self, owner_id: int, space: EmbeddingSpace, blocks: HeldBlocks) -> None:
        """Hold these as the last; of the others, those that were put longest ago make room."""
        with self._lock:
            self._held.pop((owner_id, space.pk), None)
            self._held[owner_id, space.pk] = blocks
            while len(self._held) > 1 and sum(held.size for held in self._held.values()) > HELD_BYTES:
                self._held.popitem(last=False)


_holder = _Holder()


def _current_blocks(owner_id: int, space: EmbeddingSpace, filters: Filters) -> tuple[HeldBlocks | None, Mask]:
    """The owner's blocks as they are now, None where there are none; and which pass the filters of conversations."""
    held = _holder.get(owner_id, space)
    known = [] if held is None else held.ids.tolist()
    asked = Asked(*blocks_statement(owner_id, space, filters, known))
    ((ids, conversations, passing, places, signs),) = asked.rows()
    if ids is None:
        return None, np.empty(0, bool)
    if held is None or ids != known:
        fresh = [Signs.unpacked(*content) for content in zip(places or [], signs or [], strict=True)]
        held = _renewed(held, ids, conversations, fresh)
        _holder.put(owner_id, space, held)
    return held, np.asarray(passing)


def blocks_statement(
    owner_id: int, space: EmbeddingSpace, filters: Filters, known: Sequence[int]
) -> tuple[str, dict[str, Any]]:
    """The SQL that lists an owner's blocks and reads those that are not known, and its parameters."""
    conditions, parameters = conversation_conditions(filters, "e")
    statement = load_sql("search", "sign_blocks").replace("{filters}", " AND ".join(["TRUE", *conditions]))
    return statement, parameters | {"owner": owner_id, "space": space.pk, "held": list(known)}


def _renewed(
    held: HeldBlocks | None, ids: Sequence[int], conversations: Sequence[int], fresh: list[Signs]
) -> HeldBlocks:
    """Blocks `ids`: those that were held, and `fresh` ones, in order, in the places of the others."""
    known = {} if held is None else held.by_id()
    others = iter(fresh)
    pieces = [known[block] if block in known else next(others) for block in ids]
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    return HeldBlocks(np.asarray(ids), np.asarray(conversations), starts, Signs.joined(pieces))


# --- scanning -------------------------------------------------------------------------------------------


def nearest_by_signs(
    *,
    owner_id: int,
    space: EmbeddingSpace,
    question: Vector,
    kinds: Sequence[int],
    filters: Filters,
    text: QueryText,
    limit: int,
) -> list[int]:
    """Ids of the owner's passages whose signs differ least from the question's (dim,), in no order of nearness.

    At least `limit`, where there are as many: those that are equally far all count. One query, one more where
    single turns are filtered.
    """
    blocks, passing = _current_blocks(owner_id, space, filters)
    if blocks is None:
        return []
    eligible = np.repeat(passing, blocks.counts) & _of_kinds(blocks.signs, kinds)
    if filters.turns is not None:
        first, last = filters.turns
        eligible &= (blocks.signs.turns >= first) & (blocks.signs.turns <= last)
    if (matching := _matching_turns(owner_id, filters, text)) is not None:
        eligible &= np.isin(blocks.turn_keys(), matching)
    candidates = np.flatnonzero(eligible)
    distances = blocks.signs.distances(question)[candidates]
    nearest: list[int] = blocks.signs.ids[candidates[distances <= _cutoff(distances, limit)]].tolist()
    return nearest


def _cutoff(distances: NDArray[np.uint16], limit: int) -> int:
    """The distance within which at least `limit` of them lie, or all."""
    return int(np.searchsorted(np.cumsum(np.bincount(distances)), limit))


def _of_kinds(signs: Signs, kinds: Sequence[int]) -> Mask:
    wanted = np.zeros(256, bool)
    wanted[list(kinds)] = True
    return wanted[signs.kinds]


def _matching_turns(owner_id: int, filters: Filters, text: QueryText) -> TurnKeys | None:
    """The turns that pass the filters of single turns; None where there are no such filters. One query or none."""
    conditions, parameters = turn_conditions(filters, text)
    if not conditions:
        return None
    statement = load_sql("search", "matching_turns").replace("{filters}", " AND ".join(conditions))
    ((conversations, turns),) = Asked(statement, parameters | {"owner": owner_id}).rows()
    return turn_keys(conversations or [], turns or [])
