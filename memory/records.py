"""Writing the status records of messages, and counting them.

A record follows the passages: it is written in the transaction that stores them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection

from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import StoredMessage, get_conversation
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space

ERROR_CHARS = 1000


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Counts over the messages of a conversation that a person or an assistant wrote, and embedded tokens.

    `waiting_for_answer` of the `pending` ones belong to no complete turn yet.
    """

    embedded: int
    pending: int
    waiting_for_answer: int
    failed: int
    tokens: int


def memory_stats(*, owner: AbstractBaseUser, conversation_id: int) -> MemoryStats:
    """One conversation's counts in the active space. Raises: NotFound."""
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    parameters = {"owner": owner.pk, "conversation": conversation.pk, "space": active_space().pk}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "conversation_stats"), parameters)
        return MemoryStats(*cursor.fetchone())


def follow_positions(conversation: Conversation, first_turn: int) -> None:
    """Positions of records whose messages moved, from one turn on. One query."""
    parameters = {"owner": conversation.owner_id, "conversation": conversation.pk, "first_turn": first_turn}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "follow_positions"), parameters)


def has_record(message: StoredMessage) -> bool:
    """Whether somebody said this: tool output, system messages and what a harness put in have no record."""
    return message.is_real_user or message.role == "assistant"


def note_outcomes(
    conversation: Conversation,
    space: EmbeddingSpace,
    messages: Iterable[StoredMessage],
    *,
    token_counts: Mapping[int, int] | None = None,
    errors: Mapping[int, str] | None = None,
    keep_completed: bool = False,
) -> None:
    """Completed, or failed where `errors` names the message, in one query.

    With `keep_completed` a message that is embedded as it stands keeps its record.
    """
    noted = [message for message in messages if has_record(message)]
    if not noted:
        return
    counts, reasons = token_counts or {}, errors or {}
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "space": space.pk,
        "messages": [message.message_id for message in noted],
        "errors": [reasons.get(message.message_id, "")[:ERROR_CHARS] for message in noted],
        "token_counts": [counts.get(message.message_id, 0) for message in noted],
        "roles": [message.role for message in noted],
        "positions": [message.position for message in noted],
        "hashes": [message.content_hash for message in noted],
        "keep_completed": keep_completed,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "note_outcomes"), parameters)
