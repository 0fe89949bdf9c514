"""Packs the postings of items: which word occurs in which item, how often, and who said it.

A block (`PostingBlock`) contains the postings of consecutive items, made from their lexical documents in the
transaction that stores or deletes these documents. A block is never changed: repacking replaces it by one with another
id, so that a process that cached the old one notices (`search/postings/cached.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from django.db import connection

from convmemory.core.sql import load_sql
from search.models import PostingBlock, Source

ITEMS_PER_BLOCK = 32
# Bytes of a word's SHA-256: of a million words hardly two have the same ones.
WORD_BYTES = 6
ITEM = np.dtype([("number", ">i4"), ("length", ">i4")])
"""The entry of each item in a block, in PostgreSQL's byte order."""
POSTING = np.dtype([("place", "u1"), ("count", "u1")])
"""An entry of a posting: `place` is the item's number in the block, plus 32 for each letter of its weight after A."""
HOMES: Sequence[tuple[int, str]] = ((PostingBlock.Home.SPOKEN, "spoken"), (PostingBlock.Home.UNSPOKEN, "unspoken"))


def pack_postings(source: Source, items: Iterable[int]) -> None:
    """Repack the blocks of these items. Call it in the transaction that changes their lexical documents."""
    numbers = sorted({item // ITEMS_PER_BLOCK for item in items})
    if not numbers:
        return
    PostingBlock.objects.filter(source=source, number__in=numbers).delete()
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "source": source.pk,
        "numbers": numbers,
        "first": numbers[0] * ITEMS_PER_BLOCK,
        "last": (numbers[-1] + 1) * ITEMS_PER_BLOCK - 1,
        "items": ITEMS_PER_BLOCK,
        "word_bytes": WORD_BYTES,
    }
    with connection.cursor() as cursor:
        for home, column in HOMES:
            statement = load_sql("search.postings", "pack_postings").replace("{column}", column)
            cursor.execute(statement, parameters | {"home": home})


def drop_postings(source: Source, first_item: int) -> None:
    """Delete the postings of this item and all later ones. Call it in the transaction that deletes those items."""
    PostingBlock.objects.filter(source=source, number__gt=first_item // ITEMS_PER_BLOCK).delete()
    pack_postings(source, [first_item])
