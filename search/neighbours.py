"""The nearest neighbours of one stored turn vector, for whoever inspects it."""

from collections.abc import Iterable

from django.db.models import Q

from convmemory.core.sql import load_sql
from search.models import TurnDocument
from search.vectors.neighbours import Neighbour, nearest


def turn_neighbours(embedding_id: int) -> tuple[float, list[Neighbour]]:
    """The vector's norm and its neighbours, nearest first. One query, exact over a bounded number of rows."""
    return nearest(load_sql("search", "nearest_turns"), embedding_id)


def questions_of(turns: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """The questions of some (conversation, turn); the caller has checked that they may be read."""
    condition = Q(pk__in=[])
    for conversation_id, turn in turns:
        condition |= Q(conversation_id=conversation_id, turn_number=turn)
    rows = TurnDocument.objects.filter(condition).values_list("conversation_id", "turn_number", "question")
    return {(conversation_id, turn): question for conversation_id, turn, question in rows}
