"""Background tasks of summaries: each loads by id, calls one function and returns a small dict."""

from typing import Any

from convmemory.core.fair_queue import enqueue_for, owner_task
from summaries.making import make_summary, summaries_to_make


def enqueue_summary(*, owner_id: int, summary_id: int) -> None:
    """Ask a worker to make one summary."""
    enqueue_for(owner_id, "summaries.tasks.make", summary_id, group="summary", is_long=True)


@owner_task
def make(summary_id: int, *, owner_id: int) -> dict[str, Any]:
    """Make one summary, or a piece of a long one; the sweep takes care of failures."""
    outcome = make_summary(owner_id=owner_id, summary_id=summary_id)
    done: dict[str, Any] = {"status": outcome.status if outcome else "nothing to do"}
    return done | {"again_in_s": 0.0} if outcome is not None and outcome.again_in_s == 0 else done


def sweep() -> dict[str, Any]:
    """Find summaries that are due and enqueue them; scheduled every minute."""
    found = summaries_to_make(limit=100)
    for owner_id, summary_id in found:
        enqueue_summary(owner_id=owner_id, summary_id=summary_id)
    return {"enqueued": len(found)}
