"""Embeds messages on request: claims them, embeds them, and records the outcome of each.

The indexing of a conversation embeds most messages (`search/indexing/active.py`) and writes the same records. Here a
worker claims messages batch by batch under the conversation's lock; the sweep finds messages whose worker died. A
message that was tried before is tried alone, so that a message which kills its worker affects no other.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.models import F
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Message
from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import EmbedderUnavailable, InvalidInput, NotFound
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from memory.models import HASH_BYTES, MessageEmbedding
from memory.records import ERROR_CHARS
from search.adapters.conversations import source_of
from search.models import Source
from search.sources import adapter_of
from search.vectors.locking import derivation_lock, unless_deleted
from search.vectors.passages import draft_passages, run_alone, store_ahead, store_element_passages

BATCH = 16
MAX_REQUESTED = 1_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A message that is not embedded, and why."""

    message_id: int
    role: str
    reason: str


@dataclass(frozen=True, slots=True)
class Requested:
    """The records of the requested messages, ordered by position, and the messages that are skipped."""

    records: tuple[MessageEmbedding, ...]
    skipped: tuple[Skipped, ...]

    @property
    def to_embed(self) -> list[int]:
        """Return the ids of the messages that a worker has to embed."""
        return [record.message_id for record in self.records if record.status == MessageEmbedding.Status.PENDING]


@dataclass(slots=True)
class EmbedResult:
    """The outcome of one run.

    `finished` is False if time ran out, or with `busy` if another worker is embedding the conversation.
    """

    finished: bool = True
    busy: bool = False
    completed: int = 0
    failed: int = 0


def request_embeddings(*, caller: Caller, conversation_id: int, message_ids: Sequence[int]) -> Requested:
    """Mark messages that are not embedded in their current form as pending; completed ones stay completed.

    Raises: NotFound for a conversation or a message in it that does not exist or is not the caller's; then nothing
    changes. InvalidInput for no ids or too many.
    """
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    if not 0 < len(message_ids) <= MAX_REQUESTED:
        raise InvalidInput(f"message_ids has {len(message_ids)} entries: name 1 to {MAX_REQUESTED} messages.")
    numbers = {message_id for message_id in message_ids if 0 < message_id <= MAX_BIGINT}
    fields = ("pk", "role", "is_real_user", "position")
    messages = list(conversation.messages.filter(pk__in=numbers).only(*fields).order_by("position"))
    unknown = set(message_ids) - {message.pk for message in messages}
    if unknown:
        raise NotFound(f"There is no message {min(unknown)} in conversation {conversation.pk}.")
    space = active_space()
    ids = [message.pk for message in messages]
    parameters: dict[str, Any] = {
        "owner": caller.archive_id,
        "conversation": conversation.pk,
        "space": space.pk,
        "messages": ids,
        "hash_bytes": HASH_BYTES,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("memory", "request_embeddings"), parameters)
    records = MessageEmbedding.objects.filter(message_id__in=ids, space=space).select_related("message")
    return Requested(
        records=tuple(records.defer("message__parts").order_by("message__position")),
        skipped=tuple(Skipped(m.pk, m.role, _why_skipped(m)) for m in messages if _why_skipped(m)),
    )


def _why_skipped(message: Message) -> str:
    if message.is_real_user or message.role == Message.Role.ASSISTANT:
        return ""
    if message.role == Message.Role.USER:
        return "No person said this: a tool or a harness wrote it for the user."
    return f"Messages of role {message.role} are not part of the memory."


def embed_messages(
    *, archive_id: int, conversation_id: int, message_ids: Sequence[int], deadline: float = float("inf")
) -> EmbedResult:
    """Embed the messages whose records are not completed.

    Stops between batches once `time.monotonic()` passes `deadline`. Errors are stored in the records concerned; only an
    unreachable database raises.
    """
    result = EmbedResult()
    source = source_of(archive_id=archive_id, conversation_id=conversation_id)
    if not source:
        return result
    with derivation_lock(source.pk) as is_locked:
        if not is_locked:
            return EmbedResult(finished=False, busy=True)
        space = active_space()
        left = set(message_ids)
        while batch := _claim(space, left):
            if not _embed(source, space, batch, result, deadline):
                result.finished = False
                break
            left -= {message.pk for message in batch}
            if time.monotonic() > deadline:
                result.finished = not left
                break
    return result


def _claim(space: EmbeddingSpace, message_ids: set[int]) -> list[Message]:
    """Return the next messages, with their records marked as processing: new ones together, retried ones one by one."""
    open_records = MessageEmbedding.objects.filter(
        space=space, message_id__in=message_ids, attempts__lt=EMBEDDING.max_attempts
    ).exclude(status=MessageEmbedding.Status.COMPLETED)
    rows = list(open_records.select_related("message").order_by("attempts", "message__position")[:BATCH])
    batch = [row for row in rows if row.attempts == 0] or rows[:1]
    MessageEmbedding.objects.filter(pk__in=[row.pk for row in batch]).update(
        status=MessageEmbedding.Status.PROCESSING, attempts=F("attempts") + 1, updated_at=timezone.now()
    )
    return [row.message for row in batch]


def _embed(
    source: Source, space: EmbeddingSpace, batch: Sequence[Message], result: EmbedResult, deadline: float
) -> bool:
    """Embed a batch; return False if time ran out within long messages, which then wait for the next run."""
    try:
        read = adapter_of(source.kind).read_elements(source.archive_id, [message.pk for message in batch])
        elements = [read[message.pk] for message in batch if message.pk in read]
        with unless_deleted(source.archive_id, source.pk):
            drafts = draft_passages(elements)
            ahead = run_alone(store_ahead(source, space, drafts, out_of_time=lambda: time.monotonic() > deadline))
            if not ahead.finished:
                MessageEmbedding.objects.filter(space=space, message__in=batch).update(
                    # Running out of time is no failure: the attempt that the claim counted is given back.
                    status=MessageEmbedding.Status.PENDING,
                    attempts=F("attempts") - 1,
                    updated_at=timezone.now(),
                )
                return False
            failed = store_element_passages(source, space, elements)
            result.completed += len(batch) - len(failed)
            result.failed += len(failed)
    except (OperationalError, InterfaceError):
        raise
    except EmbedderUnavailable as error:
        _fail(space, batch, str(error), result)
    except Exception as error:
        if len(batch) > 1:
            # A whole batch failed: one by one, only the message at fault is marked as failed.
            in_time = [_embed(source, space, [message], result, deadline) for message in batch]
            return all(in_time)
        logger.exception("Message %d could not be embedded", batch[0].pk)
        _fail(space, batch, f"{type(error).__name__}: {error}", result)
    return True


def _fail(space: EmbeddingSpace, batch: Sequence[Message], reason: str, result: EmbedResult) -> None:
    MessageEmbedding.objects.filter(space=space, message__in=batch).update(
        status=MessageEmbedding.Status.FAILED, error=reason[:ERROR_CHARS], updated_at=timezone.now()
    )
    result.failed += len(batch)
