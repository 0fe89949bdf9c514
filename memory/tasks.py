"""Background tasks of memory: each loads by id, calls one function and returns a small dict."""

import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django_q.tasks import async_task

from memory import sweeping
from memory.embedding import embed_messages


def enqueue_embed(conversation_id: int, message_ids: Sequence[int]) -> None:
    """Ask a worker to embed messages of one conversation."""
    async_task("memory.tasks.embed", conversation_id, list(message_ids), group="embed")


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
    given_up = sweeping.give_up_dead()
    found = sweeping.messages_to_embed(limit=1_000)
    for conversation_id, message_ids in found.items():
        enqueue_embed(conversation_id, message_ids)
    return {"enqueued": sum(map(len, found.values())), "given_up": given_up}
