"""Packs the binary codes of passages' vectors, one bit per dimension, so that a search reads few large rows.

A block (`BinaryCodeBlock`) contains the passages of consecutive items. It is created in the transaction that stores or
deletes the passages, and never changed: a new block with another id replaces it, so that a process that cached the old
one notices (`search/vectors/blocks.py`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.models import BinaryCodeBlock, Source

# With each item the last block of a source is written again: some 16 KB if an item has eight passages (ADR 10).
ITEMS_PER_BLOCK = 32
ENTRY = np.dtype([("id", ">i8"), ("item", ">i4"), ("kind", ">i2")])
"""The entry of each passage in a block, in PostgreSQL's byte order."""


def pack_codes(source: Source, space: EmbeddingSpace, items: Iterable[int]) -> None:
    """Repack the blocks of these items. Call it in the transaction that changes their passages."""
    numbers = sorted({item // ITEMS_PER_BLOCK for item in items})
    if not numbers:
        return
    BinaryCodeBlock.objects.filter(source=source, space=space, number__in=numbers).delete()
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "source": source.pk,
        "space": space.pk,
        "numbers": numbers,
        "first": numbers[0] * ITEMS_PER_BLOCK,
        "last": (numbers[-1] + 1) * ITEMS_PER_BLOCK - 1,
        "items": ITEMS_PER_BLOCK,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "pack_codes"), parameters)


def drop_codes(source: Source, space: EmbeddingSpace, first_item: int) -> None:
    """Delete the codes of the passages of this item and all later ones.

    Call it in the transaction that deletes those passages.
    """
    blocks = BinaryCodeBlock.objects.filter(source=source, space=space)
    blocks.filter(number__gt=first_item // ITEMS_PER_BLOCK).delete()
    pack_codes(source, space, [first_item])
