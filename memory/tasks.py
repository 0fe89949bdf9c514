"""Background tasks of memory: each loads by id, calls one function and returns a small dict."""

import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from convmemory.core.measuring import timed
from convmemory.core.queueing import enqueue
from convmemory.core.retrying import queue_is_busy
from memory import sweeping
from memory.embedding import embed_messages


def enqueue_embed(conversation_id: int, message_ids: Sequence[int]) -> None:
    """Ask a worker to embed messages of one conversation."""
    enqueue("memory.tasks.embed", conversation_id, list(message_ids), group="embed")


def embed(conversation_id: int, message_ids: list[int]) -> dict[str, Any]:
    """Embed the messages; the sweep goes on with what was left."""
    result = embed_messages(
        conversation_id=conversation_id,
        message_ids=message_ids,
        deadline=time.monotonic() + settings.TASK_TIMEOUT_S / 3,
    )
    return {"finished": result.finished, "completed": result.completed, "failed": result.failed}


def sweep() -> dict[str, Any]:
    """Find what was missed and enqueue it; scheduled every minute."""
    with timed("sweep", label="messages") as measurement:
        given_up = sweeping.give_up_dead()
        found = {} if queue_is_busy() else sweeping.messages_to_embed(limit=1_000)
        for conversation_id, message_ids in found.items():
            enqueue_embed(conversation_id, message_ids)
        measurement.items = sum(map(len, found.values()))
    return {"enqueued": measurement.items, "given_up": given_up}
