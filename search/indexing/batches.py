"""Splits the items of a source into batches that take about a second each, however long the items are.

Reads items through the source's adapter. A worker checks the clock between two batches, so the size of a batch bounds
how long other owners wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from search.models import Source
from search.sources import Element, ItemText, adapter_of
from search.vectors.splitting import TOOL_CHARS

ITEMS_PER_BATCH = 64
# The limit of embedded characters in a batch (ADR 24); a larger item is a batch of its own.
BATCH_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class ItemBatch:
    """The existing items from `first` to `last`, in order."""

    first: int
    last: int
    items: list[ItemText]


def batches_of_items(source: Source, first: int) -> Iterator[ItemBatch]:
    """Yield the items from `first` on in batches; items are read 64 at a time, when they are needed."""
    for start in range(first, source.item_count, ITEMS_PER_BATCH):
        end = min(start + ITEMS_PER_BATCH, source.item_count) - 1
        batch: list[ItemText] = []
        batch_start, chars = start, 0
        for item in read_items(source, start, end):
            size = sum(map(embedded_chars, item.elements))
            if batch and chars + size > BATCH_CHARS:
                yield ItemBatch(batch_start, item.number - 1, batch)
                batch_start, batch, chars = item.number, [], 0
            batch.append(item)
            chars += size
        yield ItemBatch(batch_start, end, batch)


def read_items(source: Source, first: int, last: int) -> list[ItemText]:
    """Return the current items `first` to `last` of the source, in order."""
    return adapter_of(source.kind).read_range(source.archive_id, source.object_id, first, last)


def embedded_chars(element: Element) -> int:
    """Return the approximate number of embedded characters of an element: of tool output, only a head and a tail."""
    return sum(min(len(part.text), TOOL_CHARS) if part.kind == "tool" else len(part.text) for part in element.parts)
