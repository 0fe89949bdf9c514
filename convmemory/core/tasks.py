"""The background task of the fair queue: the ticket that every worker takes, see `fair_queue`."""

from typing import Any

from convmemory.core.queue import fair_queue


def work() -> dict[str, Any]:
    """Run the task that the fair queue chooses."""
    return fair_queue.work()
