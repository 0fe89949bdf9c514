"""Background tasks of summaries: each loads by id, calls one function and returns a small dict."""

from typing import Any

from convmemory.core.fair_queue import enqueue_for, owner_task
from summaries.making import make_summary, summaries_to_make
from summaries.models import ConversationSummary


def enqueue_summary(summary_id: int) -> None:
    """Ask a worker to make one summary."""
    owner_id = ConversationSummary.objects.filter(pk=summary_id).values_list("owner_id", flat=True).first()
    if owner_id is not None:
        enqueue_for(owner_id, "summaries.tasks.make", summary_id, group="summary", is_long=True)


@owner_task
def make(summary_id: int) -> dict[str, Any]:
    """Make one summary, or a piece of a long one; one in trouble is left to the sweep."""
    outcome = make_summary(summary_id=summary_id)
    done: dict[str, Any] = {"status": outcome.status if outcome else "nothing to do"}
    return done | {"again_in_s": 0.0} if outcome is not None and outcome.again_in_s == 0 else done


def sweep() -> dict[str, Any]:
    """Find summaries that are due and enqueue them; scheduled every minute."""
    found = summaries_to_make(limit=100)
    for summary_id in found:
        enqueue_summary(summary_id)
    return {"enqueued": len(found)}
