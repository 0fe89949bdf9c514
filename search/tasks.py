"""Background tasks of search: each loads by id, calls one function and returns a small dict."""

import time
from typing import Any

from django.conf import settings
from django_q.brokers import get_broker

from convmemory.core.queueing import enqueue
from convmemory.embeddings.spaces import active_space
from search import sweeping
from search.indexing import index_conversation
from search.vector_index import ensure_passage_index

BUSY_QUEUE = 100  # with this many tasks waiting, what looks missed is most likely still in the queue


def enqueue_index(conversation_id: int) -> None:
    """Ask a worker to bring one conversation's index up to date."""
    enqueue("search.tasks.index", conversation_id, group="index")


def index(conversation_id: int) -> dict[str, Any]:
    """Index one conversation; a long one goes on in a further task."""
    result = index_conversation(
        conversation_id=conversation_id, deadline=time.monotonic() + settings.TASK_TIMEOUT_S / 3
    )
    if not result.finished and result.turns:
        enqueue_index(conversation_id)
    return {"turns": result.turns, "computed": result.computed, "failed": result.failed}


def sweep() -> dict[str, Any]:
    """Find what was missed and enqueue it; scheduled every minute."""
    queued = get_broker().queue_size()
    found = sweeping.conversations_to_index(limit=200) if queued < BUSY_QUEUE else []
    for conversation_id in found:
        enqueue_index(conversation_id)
    return {"enqueued": len(found), "queued": queued}


def build_vector_index() -> dict[str, Any]:
    """Build the active space's vector index once some owner has outgrown exact scans; scheduled hourly."""
    return {"built": ensure_passage_index(active_space())}
