"""Background tasks of search: each loads by id, calls one function and returns a small dict."""

import time
from typing import Any

from django.conf import settings

from convmemory.core.queueing import enqueue
from convmemory.embeddings.spaces import active_space
from search.indexing.active import index_source
from search.indexing.building import build_beside
from search.vector_index import ensure_passage_index


def enqueue_index(source_id: int) -> None:
    """Ask a worker to bring one source's index up to date."""
    enqueue("search.tasks.index", source_id, group="index")


def index(source_id: int) -> dict[str, Any]:
    """Index one source, also in a space that is being built; a long one goes on in a further task."""
    deadline = time.monotonic() + settings.TASK_TIMEOUT_S / 3
    try:
        result = index_source(source_id=source_id, deadline=deadline)
    finally:
        build_beside(source_id=source_id, deadline=deadline)
    if not result.finished and result.items:
        enqueue_index(source_id)
    return {"items": result.items, "computed": result.computed, "failed": result.failed}


def build_vector_index() -> dict[str, Any]:
    """Build the active space's vector index once some owner has outgrown exact scans; scheduled hourly."""
    return {"built": ensure_passage_index(active_space())}
