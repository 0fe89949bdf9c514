"""Counts the waiting tasks of the queue: those of users, and the installation's own."""

from datetime import datetime

from django.db.models import Min
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import OrmQ

from convmemory.core.fair_queue import tasks_in_work, waiting_tasks


def waiting_count() -> int:
    """Return the number of waiting tasks, including tickets. Raises: RedisError."""
    return int(get_broker().queue_size()) + waiting_tasks().count()


def working_count() -> int:
    """Return the number of tasks in progress; with a queue on Redis, only those of users. Raises: RedisError."""
    return int(get_broker().lock_size() or 0) + tasks_in_work().count()


def oldest_arrival() -> datetime | None:
    """Return since when the oldest waiting task has been due.

    Redis records no arrival times of the installation's own tasks.
    """
    now = timezone.now()
    arrivals = [
        OrmQ.objects.filter(lock__lte=now).aggregate(at=Min("lock"))["at"],
        waiting_tasks().filter(due_at__lte=now).aggregate(at=Min("due_at"))["at"],
    ]
    return min(filter(None, arrivals), default=None)
