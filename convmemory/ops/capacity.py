"""Computes the needs of an installation of a given size: rows, bytes by table and index, hours of embedding, memory.

Multiplies measured bytes per row (docs/scaling.md says how they were measured). `measured_costs` takes them from the
running installation instead.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db import connection

from convmemory.core.sql import load_sql
from search.postings.cached import ITEMS_PER_BLOCK
from search.vectors.codes import code_bytes, short_bytes
from search.vectors.packing import ITEMS_PER_BLOCK as ITEMS_PER_PASSAGE_BLOCK

MIN_ROWS_TO_MEASURE = 5_000
# The speed of the local model on two cores, see docs/scaling.md.
PASSAGES_PER_SECOND = 520.0
CHUNKS_PER_TURN = 1.3


@dataclass(frozen=True, slots=True)
class Load:
    """The data to store. `chars_per_turn` is the text of all of a turn's messages."""

    users: int
    turns_per_user: int
    passages_per_turn: float = 4.0
    messages_per_turn: float = 2.0
    chars_per_turn: int = 1_000
    turns_per_conversation: float = 20.0
    dimensions: int = 384
    token_dimensions: int = 384  # 0 without token vectors
    texts_per_second: float = PASSAGES_PER_SECOND

    @property
    def turns(self) -> int:
        return self.users * self.turns_per_user


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes per row of a table and of its b-tree and GIN indexes."""

    table: float
    indexes: float


@dataclass(frozen=True, slots=True)
class Line:
    """One table of the estimate."""

    table: str
    rows: int
    table_bytes: int
    index_bytes: int

    @property
    def total(self) -> int:
        return self.table_bytes + self.index_bytes


@dataclass(frozen=True, slots=True)
class Estimate:
    """The requirements of a load; memory should contain the working set."""

    lines: tuple[Line, ...]
    embed_hours: float
    working_set_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(line.total for line in self.lines)


# Vectors are counted separately, so that other dimensions can be estimated: those of items 2 bytes a dimension, codes
# of passages six bits, of tokens one; and so are the contents of blocks.
MEASURED: Mapping[str, Cost] = {
    "conversations_conversation": Cost(300, 400),
    "conversations_message": Cost(272, 266),
    "conversations_messagesource": Cost(130, 23),
    "memory_messageembedding": Cost(128, 80),
    "search_source": Cost(200, 130),
    "search_sourceindex": Cost(200, 130),
    "search_item": Cost(250, 120),
    "search_postingblock": Cost(250, 130),
    "search_itemembedding": Cost(216, 148),
    "search_passageblock": Cost(3_450, 170),
}
TOKENS_PER_PASSAGE = 20
POSTING_BYTES = 0.5  # per character of text in a block of postings
ENTRY_BYTES = 23.5  # per vector in a block, compressed
DIGEST_BYTES = 16.0


def estimate(load: Load, costs: Mapping[str, Cost] = MEASURED) -> Estimate:
    """Return rows and bytes of each large table, hours of embedding on one machine, and memory."""
    lines: list[Line] = []
    for size in _tables(load):
        table_bytes = round(size.rows * (costs[size.table].table + size.table_extra))
        index_bytes = round(size.rows * (costs[size.table].indexes + size.index_extra))
        lines.append(Line(size.table, size.rows, table_bytes, index_bytes))
    passages = _rows(load, load.passages_per_turn)
    hot = {
        "search_passageblock", "search_postingblock", "search_item", "search_itemembedding",
    }  # fmt: skip
    working_set = sum(line.index_bytes + (line.table_bytes if line.table in hot else 0) for line in lines)
    return Estimate(tuple(lines), passages / load.texts_per_second / 3_600, working_set)


@dataclass(frozen=True, slots=True)
class _Size:
    """The number of a table's rows, and the size of texts and vectors in a row and in its index entries."""

    table: str
    rows: int
    table_extra: float = 0.0
    index_extra: float = 0.0


def _tables(load: Load) -> Iterable[_Size]:
    message_chars = load.chars_per_turn / load.messages_per_turn
    conversations = _rows(load, 1 / load.turns_per_conversation)
    messages, passages = _rows(load, load.messages_per_turn), _rows(load, load.passages_per_turn)
    chunks = _rows(load, CHUNKS_PER_TURN)
    yield _Size("conversations_conversation", conversations)
    yield _Size("conversations_message", messages, message_chars * 1.15)  # the JSON's keys included
    yield _Size("conversations_messagesource", messages, message_chars * 0.8)  # compressed
    yield _Size("memory_messageembedding", messages)
    yield _Size("search_source", conversations)
    yield _Size("search_sourceindex", conversations)
    yield _Size("search_item", load.turns, load.chars_per_turn * 2.1)
    yield _Size("search_itemembedding", chunks, 2.0 * load.dimensions)
    tokens = TOKENS_PER_PASSAGE * load.token_dimensions / 8
    blocks = conversations * math.ceil(load.turns_per_conversation / ITEMS_PER_BLOCK)
    words = load.turns / max(2 * blocks, 1) * load.chars_per_turn * POSTING_BYTES
    yield _Size("search_postingblock", 2 * blocks, words)  # of spoken and of other text
    packed = conversations * math.ceil(load.turns_per_conversation / ITEMS_PER_PASSAGE_BLOCK)
    of_passages = passages * (code_bytes(load.dimensions) + ENTRY_BYTES + DIGEST_BYTES + tokens)
    of_items = chunks * (short_bytes(load.dimensions) + ENTRY_BYTES)
    yield _Size("search_passageblock", packed, (of_passages + of_items) / max(packed, 1))


def _rows(load: Load, per_turn: float) -> int:
    return round(load.turns * per_turn)


def measured_costs(load: Load) -> dict[str, Cost]:
    """Return bytes per row of this installation's tables with enough rows, without the part that depends on the load.

    Row counts are the planner's, so that no table is scanned.
    """
    extras = {size.table: size for size in _tables(load)}
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.ops", "bytes_per_row"),
            [list(extras), MIN_ROWS_TO_MEASURE],
        )
        rows = cursor.fetchall()
    return {
        name: Cost(max(table - extras[name].table_extra, 0.0), max(indexes - extras[name].index_extra, 0.0))
        for name, table, indexes in rows
    }


def with_measured(load: Load) -> tuple[Estimate, list[str]]:
    """Return the estimate with this installation's own bytes per row where known, and the tables concerned."""
    measured = measured_costs(load)
    return estimate(load, {**MEASURED, **measured}), sorted(measured)
