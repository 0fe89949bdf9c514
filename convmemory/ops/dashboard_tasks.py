"""Background tasks of the dashboard."""

from typing import Any

from convmemory.core.acting import acting_for
from convmemory.core.queue.fair_queue import enqueue
from convmemory.ops.observability.index_samples import take_sample
from convmemory.ops.observability.turn_maps import compute_map


def enqueue_sample() -> None:
    """Enqueue a measurement of the index now, before the next interval."""
    enqueue("convmemory.ops.dashboard_tasks.sample_index", group="dashboard")


def enqueue_map(archive_id: int) -> None:
    """Enqueue the computation of the map of one user's turns."""
    enqueue("convmemory.ops.dashboard_tasks.map_turns", archive_id, group="dashboard")


def sample_index() -> dict[str, Any]:
    """Measure the index once; scheduled every ten minutes."""
    sample = take_sample()
    return {"turns": sample.turns, "pending": sample.pending, "failed": sample.failed}


def map_turns(archive_id: int) -> dict[str, Any]:
    """Recompute one user's map."""
    with acting_for(archive_id):
        turn_map = compute_map(archive_id=archive_id)
    return {"points": len(turn_map.points) if turn_map else 0}
