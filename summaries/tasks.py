"""Background tasks of summaries: each loads a row by id, calls one function and returns a small dict."""

from typing import Any

from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import asked_for, enqueue_for, task
from summaries.making import make_summary, summaries_to_make

MAKE = "summaries.tasks.make"


def enqueue_summary(*, archive_id: int, summary_id: int, asked_by: int | None = None) -> None:
    """Ask a worker to make one summary; in a space it takes the turn of `asked_by`, or of who acts."""
    enqueue_for(archive_id, MAKE, summary_id, group="summary", person_id=asked_by)


@task(long=True)
def make(summary_id: int, *, archive_id: int) -> dict[str, Any]:
    """Make one summary, or the next piece of a long one; the sweep retries failures."""
    outcome = make_summary(archive_id=archive_id, summary_id=summary_id)
    done: dict[str, Any] = {"status": outcome.status if outcome else "nothing to do"}
    return done | {"again_in_s": 0.0} if outcome is not None and outcome.again_in_s == 0 else done


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue summaries that are due and not in the queue; scheduled every minute."""
    in_hand = {task.args[0] for task in asked_for(MAKE).only("args")}
    missed = [row for row in summaries_to_make(limit=100) if row[1] not in in_hand]
    for archive_id, summary_id, asked_by in missed:
        enqueue_summary(archive_id=archive_id, summary_id=summary_id, asked_by=asked_by)
    return {"enqueued": len(missed)}
