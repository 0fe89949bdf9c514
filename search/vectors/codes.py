"""Packing the signs of passages' vectors, one bit a dimension, so that a search reads few large rows.

A block holds the passages of some turns that follow each other (`SignBlock`). It is made in the transaction that
stores or deletes the passages, and never changed: what changes is packed anew and gets another id, by which a
process that holds the block sees that it is old (`search/sign_scan.py`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from django.db import connection

from convmemory.conversations.models import Conversation
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.models import SignBlock

TURNS_PER_BLOCK = 32
PLACE = np.dtype([("id", ">i8"), ("turn", ">i4"), ("kind", ">i2")])
"""What a block says of each passage, as PostgreSQL sends numbers."""


def pack_signs(conversation: Conversation, space: EmbeddingSpace, turns: Iterable[int]) -> None:
    """Pack the blocks that hold these turns anew. Within the transaction that changes their passages."""
    numbers = sorted({turn // TURNS_PER_BLOCK for turn in turns})
    if not numbers:
        return
    SignBlock.objects.filter(conversation=conversation, space=space, number__in=numbers).delete()
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "space": space.pk,
        "numbers": numbers,
        "first": numbers[0] * TURNS_PER_BLOCK,
        "last": (numbers[-1] + 1) * TURNS_PER_BLOCK - 1,
        "turns": TURNS_PER_BLOCK,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "pack_signs"), parameters)


def drop_signs(conversation: Conversation, space: EmbeddingSpace, first_turn: int) -> None:
    """Let go of the passages of this turn and later ones, which are gone. Within the transaction that deletes them."""
    blocks = SignBlock.objects.filter(conversation=conversation, space=space)
    blocks.filter(number__gt=first_turn // TURNS_PER_BLOCK).delete()
    pack_signs(conversation, space, [first_turn])
