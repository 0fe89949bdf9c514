"""Tasks that wait in the owners' queue, and running them without a worker process."""

from typing import Any

from convmemory.core.models import OwnerTask
from convmemory.core.queue import fair_queue


def queued(func: str = "") -> list[tuple[str, list[Any]]]:
    """The tasks of owners that wait, or those with one function, in the order in which they were asked for."""
    found = fair_queue.asked_for(func) if func else OwnerTask.objects.exclude(archive=None)
    return list(found.order_by("asked_at", "pk").values_list("func", "args"))


def drop_all() -> None:
    """Lose all tasks, as if they had been done or their worker had died with them."""
    OwnerTask.objects.all().delete()
