"""The stored passages, read from their blocks."""

from typing import Any, NamedTuple
from uuid import UUID

from search.models import PassageBlock
from search.vectors.packing import Passages


class Row(NamedTuple):
    """One stored passage, and the block that contains it."""

    block: PassageBlock
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


def stored_passages(*, is_kept: bool | None = False, **filters: Any) -> list[Row]:
    """Return the passages of the blocks that pass the filters, in the order of sources and items."""
    if is_kept is not None:
        filters["is_kept"] = is_kept
    blocks = PassageBlock.objects.filter(**filters).select_related("space", "source")
    return [
        Row(block, *passage)
        for block in blocks.order_by("space_id", "source_id", "is_kept", "number")
        for passage in Passages.read(
            [(block.entries, block.digests, block.codes, block.fine, block.tokens)], block.space
        )
    ]
