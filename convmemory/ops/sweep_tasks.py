"""Background tasks of the sweeps, see `sweeping`; scheduled in `schedules`."""

from typing import Any

from convmemory.ops.models import SweepRun
from convmemory.ops.runtime import sweeping
from search.tasks import enqueue_sources


def sweep() -> dict[str, Any]:
    """Repair missed and stuck work; scheduled every minute."""
    return _figures(sweeping.sweep(enqueue=enqueue_sources))


def deep_sweep() -> dict[str, Any]:
    """Repair orphaned, missing and stale rows; scheduled every hour."""
    return _figures(sweeping.deep_sweep(enqueue=enqueue_sources))


def _figures(run: SweepRun) -> dict[str, Any]:
    return {"found": run.found, "fixed": run.fixed}
