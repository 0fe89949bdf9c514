"""Background tasks of summaries: each loads by id, calls one function and returns a small dict."""

from typing import Any

from convmemory.core.queueing import enqueue
from summaries.making import make_summary, summaries_to_make


def enqueue_summary(summary_id: int) -> None:
    """Ask a worker to make one summary."""
    enqueue("summaries.tasks.make", summary_id, group="summary")


def make(summary_id: int) -> dict[str, Any]:
    """Make one summary; a long one goes on in a further task, one in trouble is left to the sweep."""
    outcome = make_summary(summary_id=summary_id)
    if outcome is not None and outcome.again_in_s == 0:
        enqueue_summary(summary_id)
    return {"status": outcome.status if outcome else "nothing to do"}


def sweep() -> dict[str, Any]:
    """Find summaries that are due and enqueue them; scheduled every minute."""
    found = summaries_to_make(limit=100)
    for summary_id in found:
        enqueue_summary(summary_id)
    return {"enqueued": len(found)}
