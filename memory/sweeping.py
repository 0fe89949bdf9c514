"""Finds messages whose embedding was missed: a lost task, a killed worker, an endpoint that was down."""

from collections.abc import Collection
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from convmemory.core.acting import in_group
from convmemory.core.config import config
from convmemory.core.groups import every_group
from convmemory.core.retrying import EMBEDDING
from convmemory.embeddings.spaces import active_space
from memory.models import MessageEmbedding

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
    rows = MessageEmbedding.objects.filter(due, space=active_space(), attempts__lt=EMBEDDING.max_attempts).exclude(
        conversation__in=except_of
    )
    found: dict[tuple[int, int], list[int]] = {}
    columns = ("owner_id", "conversation_id", "message_id")
    for owner, conversation, message in rows.order_by("updated_at").values_list(*columns)[:limit]:
        found.setdefault((owner, conversation), []).append(message)
    return found


def give_up_dead() -> int:
    """Mark messages as failed that have used up their attempts without an outcome; returns how many."""
    quiet_since = timezone.now() - timedelta(seconds=config.task_timeout_s) - PATIENCE
    error = f"Given up after {EMBEDDING.max_attempts} attempts: each time the worker died or ran out of time."
    given_up = 0
    for group in every_group():
        with in_group(group):
            dead = MessageEmbedding.objects.filter(
                status=Status.PROCESSING, attempts__gte=EMBEDDING.max_attempts, updated_at__lt=quiet_since
            )
            given_up += dead.update(status=Status.FAILED, error=error, updated_at=timezone.now())
    return given_up
