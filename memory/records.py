"""Writes, counts and repairs the status records of messages.

A record is written in the transaction that stores the message's passages.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.reading import get_conversation
from convmemory.core.config import config
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.core.trash import outside_trash
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from memory.models import HASH_BYTES, MessageEmbedding
from search.adapters.conversations import KIND
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


def memory_stats(*, caller: Caller, conversation_id: int) -> MemoryStats:
    """Return one conversation's counts in the active space. Raises: NotFound."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    parameters = {
        "owner": caller.archive_id,
        "conversation": conversation.pk,
        "space": active_space().pk,
        "hash_bytes": HASH_BYTES,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "conversation_stats"), parameters)
        return MemoryStats(*cursor.fetchone())


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
        "owner": source.archive_id,
        "space": space.pk,
        "messages": [element.element_id for element in elements],
        "errors": [errors.get(element.element_id, "")[:ERROR_CHARS] for element in elements],
        "token_counts": [token_counts.get(element.element_id, 0) for element in elements],
        "hashes": [element.digest[:HASH_BYTES] for element in elements],
        "keep_completed": keep_completed,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "record_outcomes"), parameters)


def on_elements_embedded(
    sender: Any,
    *,
    source: Source,
    space: EmbeddingSpace,
    elements: Sequence[Element],
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    keep_completed: bool,
    **kwargs: Any,
) -> None:
    if source.kind == KIND:
        record_outcomes(
            source, space, elements, token_counts=token_counts, errors=errors, keep_completed=keep_completed
        )


# A task that is still queued starts sooner than this; a record that waits longer was missed.
PATIENCE = timedelta(minutes=1)
Status = MessageEmbedding.Status


def messages_to_embed(*, limit: int, except_of: Collection[int] = ()) -> dict[tuple[int, int], list[int]]:
    """Return the ids of messages to try now, by owner and conversation, those waiting longest first.

    The messages of the conversations `except_of` are left out. A record in processing counts once it is untouched for
    `PATIENCE`: the lock of a living worker prevents duplicate work. Failures are retried with growing pauses.
    """
    now = timezone.now()
    due = Q(status__in=[Status.PENDING, Status.PROCESSING], updated_at__lt=now - PATIENCE)
    due |= Q(status=Status.FAILED) & EMBEDDING.due(now)
    due &= outside_trash("message__conversation")
    rows = MessageEmbedding.objects.filter(due, space=active_space(), attempts__lt=EMBEDDING.max_attempts).exclude(
        message__conversation__in=except_of
    )
    messages: dict[tuple[int, int], list[int]] = {}
    columns = ("archive_id", "message__conversation_id", "message_id")
    for owner, conversation, message in rows.order_by("updated_at").values_list(*columns)[:limit]:
        messages.setdefault((owner, conversation), []).append(message)
    return messages


def give_up_dead() -> int:
    """Mark messages as failed that have used up their attempts without an outcome; returns how many."""
    quiet_since = timezone.now() - timedelta(seconds=config.task_timeout_s) - PATIENCE
    error = f"Given up after {EMBEDDING.max_attempts} attempts: each time the worker died or ran out of time."
    dead = MessageEmbedding.objects.filter(
        status=Status.PROCESSING, attempts__gte=EMBEDDING.max_attempts, updated_at__lt=quiet_since
    )
    return dead.update(status=Status.FAILED, error=error, updated_at=timezone.now())
