"""Loads the openings that accompany recalled passages: the first sentences of the question and of the answer."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.db import connection

from convmemory.conversations.parts import speaker_of
from convmemory.core.sql import load_sql
from memory.recalled import Opening, RecalledPassage, Side
from search.models import Passage

OpeningKey = tuple[int, Side]
"""The id of the recalled message, and the side whose opening it is."""


def load_openings(*, owner_id: int, message_ids: Sequence[int]) -> Mapping[OpeningKey, Opening]:
    """Return the first passages of each message's question and answer. One query; only the owner's messages."""
    if not message_ids:
        return {}
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "messages": list(message_ids),
        "question": Passage.Kind.USER,
        "answer": Passage.Kind.ASSISTANT,
        "outside": Passage.Kind.OUTSIDE,
    }
    found: dict[OpeningKey, Opening] = {}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "openings"), parameters)
        for recalled_id, said_by, *place, text, name, position in cursor.fetchall():
            role = cast("Side", said_by)
            message_id, part_index, start, end = cast("list[int]", place)
            passage = RecalledPassage(message_id, part_index, start, end, text or "")
            found[recalled_id, role] = Opening(passage, speaker_of(role, name), position)
    return found
