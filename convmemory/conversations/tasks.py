"""Background tasks of imports: each loads by id, calls one function and returns a small dict."""

from typing import Any

from django.conf import settings

from convmemory.conversations import import_queue
from convmemory.conversations.import_process import run_import
from convmemory.core.child_process import GRACE_S
from convmemory.core.queueing import enqueue


def enqueue_import(import_id: int) -> None:
    """Ask a worker to import one upload."""
    timeout_s = settings.IMPORT_TIMEOUT_S + 2 * GRACE_S
    enqueue("convmemory.conversations.tasks.run", import_id, group="import", timeout=timeout_s)


def run(import_id: int) -> dict[str, Any]:
    """Import one upload in a process of its own, then ask for those that waited for it."""
    state = run_import(import_id=import_id)
    if state is not None:
        _enqueue_next()
    return {"state": state or "not now"}


def sweep() -> dict[str, Any]:
    """Find imports whose worker died and those that nobody was asked for; scheduled every minute."""
    lost, tidied = import_queue.release_lost(), import_queue.tidy()
    return {"lost": lost, "tidied": tidied, "enqueued": _enqueue_next()}


def _enqueue_next() -> int:
    found = import_queue.next_imports()
    for import_id in found:
        enqueue_import(import_id)
    return len(found)
