"""Writes and counts the status records of messages.

A record is written in the transaction that stores the message's passages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from convmemory.conversations.reading import get_conversation
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.models import Source
from search.sources import Element

ERROR_CHARS = 1000


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Counts of embedded, pending and failed messages of users and assistants, and of embedded tokens."""

    embedded: int
    pending: int
    failed: int
    tokens: int


def memory_stats(*, owner: AbstractBaseUser, conversation_id: int) -> MemoryStats:
    """Return one conversation's counts in the active space. Raises: NotFound."""
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    parameters = {"owner": owner.pk, "conversation": conversation.pk, "space": active_space().pk}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "conversation_stats"), parameters)
        return MemoryStats(*cursor.fetchone())


def follow_positions(source: Source, first_turn: int) -> None:
    """Update the positions of records whose messages moved, from one turn of the conversation on. One query."""
    parameters = {"owner": source.owner_id, "conversation": source.object_id, "first_turn": first_turn}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "follow_positions"), parameters)


def record_outcomes(
    source: Source,
    space: EmbeddingSpace,
    elements: Sequence[Element],
    *,
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    keep_completed: bool = False,
) -> None:
    """Mark records as completed, or as failed if `errors` names the message. One query.

    Only messages of users and assistants have a record. With `keep_completed`, the record of a message that is embedded
    in its current form stays unchanged.
    """
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "conversation": source.object_id,
        "space": space.pk,
        "messages": [element.element_id for element in elements],
        "errors": [errors.get(element.element_id, "")[:ERROR_CHARS] for element in elements],
        "token_counts": [token_counts.get(element.element_id, 0) for element in elements],
        "hashes": [element.digest for element in elements],
        "keep_completed": keep_completed,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "record_outcomes"), parameters)
