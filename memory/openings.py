"""The openings of turns: the first passage of the question and the first of the answer, looked up by turn and side.

They are the partners that recalled passages are brought back with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from django.db import connection

from convmemory.conversations.parts import speaker_of
from convmemory.core.sql import load_sql
from memory.recalled import Opening, RecalledPassage, Side
from search.models import Passage

OpeningKey = tuple[int, int, Side]
"""Conversation, turn number, and who said it."""


def load_openings(*, owner_id: int, turns: Sequence[tuple[int, int]]) -> Mapping[OpeningKey, Opening]:
    """The openings of the owner's turns (conversation, turn number), in a map. One query."""
    if not turns:
        return {}
    conversations, numbers = zip(*turns, strict=True)
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "conversations": list(conversations),
        "turns": list(numbers),
        "kinds": [Passage.Kind.USER, Passage.Kind.ASSISTANT],
    }
    found: dict[OpeningKey, Opening] = {}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "openings"), parameters)
        for conversation, turn, kind, *place, text, name, position in cursor.fetchall():
            role: Side = "user" if kind == Passage.Kind.USER else "assistant"
            message_id, part_index, start, end = cast("list[int]", place)
            passage = RecalledPassage(message_id, part_index, start, end, text or "")
            found[conversation, turn, role] = Opening(passage, speaker_of(role, name), position)
    return found
