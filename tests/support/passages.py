"""The stored passages, read from their blocks."""

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from django.db import transaction

from convmemory.embeddings.models import EmbeddingSpace
from search.models import PassageBlock, Source
from search.vectors.packing import Passages, current_blocks_of, read_passages, repack


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


def take_passages(
    source: Source, space: EmbeddingSpace, *, items: Collection[int] = (), elements: Collection[int] = ()
) -> None:
    """Delete the passages of some items, or of some elements, and pack the others again with the items' vectors."""
    blocks = current_blocks_of(source, space)
    passages = read_passages(blocks, space)
    lost = np.isin(passages.entries["item"], list(items)) | np.isin(passages.entries["element"], list(elements))
    with transaction.atomic():
        repack(source, space, passages.chosen(~lost), set(blocks.values_list("number", flat=True)))
