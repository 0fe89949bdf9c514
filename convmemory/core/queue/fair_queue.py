"""The queue of people's tasks, which takes turns by owner. Reads and writes `OwnerTask` and `OwnerService`.

django-q carries identical tickets, on the database or on Redis: each lets a worker do one task. The worker chooses the
task when it takes the ticket, so that the few tasks of one owner never wait behind the many of another. Reasons:
docs/adr/0024-fair-scheduling-by-owner.md.
"""

import json
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from pydoc import locate
from typing import Any

import psutil
from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.models import OwnerService, OwnerTask
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.queue.queueing import enqueue, waiting_calls
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash

TICKET = "convmemory.core.tasks.work"
MAX_ATTEMPTS = 5
RETRY_AFTER = timedelta(minutes=1)  # doubled with every attempt that failed
LEASE = timedelta(minutes=2)  # of a task that stops after some seconds; a killed worker's is taken up again after it
LEASE_MARGIN = timedelta(minutes=1)  # of a long one, beyond its time limit
SILENCE = timedelta(seconds=30)  # a task that has waited for so long has lost its ticket, or its ticket was too early
KEY_CHARS = 40
OWNER_TASK, IS_LONG = "runs_for_owner", "is_long"

Task = Callable[..., dict[str, Any]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """Describes the task that a ticket's worker ran, as the history names it, and whether it is complete."""

    task_id: str
    func: str
    args: tuple[Any, ...]
    group: str
    finished: bool


last_work: ContextVar[Work | None] = ContextVar("last_work", default=None)
"""The work of this process's last ticket, until the history has stored it."""

_in_work: ContextVar[OwnerTask | None] = ContextVar("in_work", default=None)
"""The task that this process works on."""


@dataclass(slots=True)
class _Pace:
    """When tickets may be looked for again, and whether a task was requested since."""

    next: float = 0.0
    is_due: bool = False


_pace: ContextVar[_Pace | None] = ContextVar("pace", default=None)


def owner_task(function: Task) -> Task:
    """Mark a function of an app's `tasks` module as one that runs for a person: `enqueue_for` may name it.

    It is called with that person's id as `owner_id`, in addition to the arguments of the task.
    """
    setattr(function, OWNER_TASK, True)
    return function


def long_owner_task(function: Task) -> Task:
    """Mark an `owner_task` that cannot stop after a slice: it waits for a child process or for a model.

    Long tasks never take the last free worker of a machine that has several, and those of one owner leave one of the
    other places to another owner's where a machine has two.
    """
    setattr(function, IS_LONG, True)
    return owner_task(function)


# --- enqueueing ---------------------------------------------------------------------------------------


def enqueue_for(owner_id: int, func: str, *args: Any, group: str = "", as_of: datetime | None = None) -> bool:
    """Request that a worker runs `func`, the path of an `owner_task`, for a person; False if that person is gone.

    Of an owner's tasks the newest is next; for content from the past, `as_of` says how old it is. A second request for
    the same task adds none. `func` stops after `slice_end` and returns `again_in_s` if work is left; a function that
    cannot stop is a `long_owner_task`.
    """
    now = timezone.now()
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "task_id": uuid.uuid4(),
        "key": task_key(func, args, owner_id=owner_id),
        "func": func,
        "args": json.dumps(args),
        "group": group,
        "is_long": getattr(function_of(func), IS_LONG, False),
        "now": now,
        "as_of": min(as_of or now, now),
    }
    who = acting.current()
    # A reader of a space may request its upkeep, such as the drawing of a page, though they change nothing else.
    for_space = who.person_id is not None and who.owner_id == owner_id
    with acting.acting_for(owner_id) if for_space else nullcontext(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "ask_for_task"), parameters)
        row = cursor.fetchone()
    if row is not None:
        transaction.on_commit(_add_ticket_by_pace)
    return row is not None


@contextmanager
def ticket_every_second() -> Iterator[None]:
    """Look for missing tickets once a second in this block and at its end, instead of after each requested task."""
    pace = _Pace()
    token = _pace.set(pace)
    try:
        yield
    finally:
        _pace.reset(token)
        if pace.is_due:
            _add_missing_ticket()


def _add_ticket_by_pace() -> None:
    pace = _pace.get()
    if pace is None:
        _add_missing_ticket()
    elif time.monotonic() < pace.next:
        pace.is_due = True
    else:
        pace.is_due, pace.next = False, time.monotonic() + 1
        _add_missing_ticket()


def asked_for(func: str) -> QuerySet[OwnerTask]:
    """Return the tasks with this function that wait or are in work."""
    return OwnerTask.objects.filter(func=func)


def task_key(func: str, args: Sequence[Any], *, owner_id: int) -> str:
    """Return the key by which a repeated request finds its task: `func:argument`, or a hash of owner and arguments.

    A single argument is the number of a row, which belongs to one owner.
    """
    said = str(args[0]) if len(args) == 1 else ""
    hashed = content_hash(json.dumps([owner_id, *args])).hex()[:KEY_CHARS]
    return f"{func}:{said if 0 < len(said) <= KEY_CHARS else hashed}"


def slice_end() -> float:
    """The `time.monotonic()` at which a task that starts now should make room for others."""
    return time.monotonic() + float(config.task_slice_s)


# --- working --------------------------------------------------------------------------------------


def work() -> dict[str, Any]:
    """Do the work of one ticket: choose a task, run it for a slice, and put it back if work is left.

    Tasks are chosen and put back as maintenance; the work itself is done as its owner.
    """
    task = claim()
    if task is None:
        return {}
    _add_missing_ticket()  # with more tasks than tickets, this ticket also served others
    call = (task.task_id.hex, task.func, tuple(task.args), task.group)
    last_work.set(Work(*call, finished=False))
    in_work = _in_work.set(task)
    _limit_time()
    try:
        function = function_of(task.func)
        if function is None:
            raise ValueError(f"{task.func!r} is no task that runs for a person.")
        with acting.acting_for(task.owner_id):
            result = function(*task.args, owner_id=task.owner_id)
    except Exception:
        _put_back(task, attempts=task.attempts, pause=RETRY_AFTER * 2**task.attempts)
        raise
    finally:
        _in_work.reset(in_work)
    again_in_s = result.get("again_in_s")
    last_work.set(Work(*call, finished=again_in_s is None))
    if again_in_s is not None:
        attempts = task.attempts - 1 if again_in_s else 0  # a pause means no progress was possible, not failure
        _put_back(task, attempts=attempts, pause=timedelta(seconds=again_in_s))
    elif not _own(task).filter(version=task.version).delete()[0]:
        _put_back(task, attempts=0, pause=timedelta())  # asked for again meanwhile
    elif task.is_long:
        _add_missing_ticket()  # tickets taken while all places for long tasks were full found no task
    return dict(result)


def keep_task() -> None:
    """Renew the lease and the time limit of the task that this process works on, if any.

    Called while a child process is watched, which has a time limit of its own.
    """
    task = _in_work.get()
    if task is not None:
        leased_until = timezone.now() + LEASE
        if _own(task).update(leased_until=leased_until):
            task.leased_until = leased_until
        _limit_time()


def _limit_time() -> None:
    """Shorten the time limit that the ticket set in a worker, which is that of the longest task."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.alarm(int(config.task_timeout_s))


def claim(now: datetime | None = None) -> OwnerTask | None:
    """The task that is next, leased to this worker; None where none is due. Workers choose one after the other."""
    now = now or timezone.now()
    most_long = max(1, config.workers - 1)
    parameters: dict[str, Any] = {
        "now": now,
        "cluster": _cluster(),
        "most_long": most_long,
        "most_long_of_owner": max(1, most_long - 1),
        "keeps_one_free": config.workers > 1,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "one_at_a_time"), [AdvisoryLock.CLAIM])
        # Delete tasks that failed or killed their worker `MAX_ATTEMPTS` times; the sweeps find work that is left
        # undone.
        dead = OwnerTask.objects.filter(attempts__gte=MAX_ATTEMPTS).filter(_free(now))
        for func, owner_id in dead.values_list("func", "owner_id"):
            logger.error("%s for user %s is given up after %d attempts", func, owner_id, MAX_ATTEMPTS)
        dead.delete()
        cursor.execute(load_sql("convmemory.core", "next_task"), parameters)
        row = cursor.fetchone()
        if row is None:
            return None
        task = OwnerTask.objects.get(pk=row[0])
        lease = timedelta(seconds=config.task_timeout_s) + LEASE_MARGIN if task.is_long else LEASE
        task.leased_until, task.cluster, task.attempts = now + lease, _cluster(), task.attempts + 1
        task.save(update_fields=["leased_until", "cluster", "attempts"])
        OwnerService.objects.update_or_create(owner_id=task.owner_id, defaults={"served_at": now})
    return task


def _put_back(task: OwnerTask, *, attempts: int, pause: timedelta) -> None:
    due_at = timezone.now() + pause
    _own(task).update(leased_until=None, due_at=due_at, attempts=attempts, slices=F("slices") + 1)
    if task.is_long or not pause:
        _add_missing_ticket()


def _own(task: OwnerTask) -> QuerySet[OwnerTask]:
    """Return the row, if the lease is still this worker's."""
    return OwnerTask.objects.filter(pk=task.pk, leased_until=task.leased_until)


def function_of(path: str) -> Task | None:
    """Return the `owner_task` of that name; None for any other code, which a row must not be able to name."""
    app, _, name = path.rpartition(".")[0].rpartition(".")
    found = locate(path) if name == "tasks" and app in config.installed_apps else None
    return found if callable(found) and getattr(found, OWNER_TASK, False) else None


def _cluster() -> str:
    """Return the name that the workers of one `manage.py worker` share."""
    return f"{_host()}:{os.getppid()}"


def _host() -> str:
    return socket.gethostname()[:80]


# --- tickets --------------------------------------------------------------------------------------
# There are as many tickets as waiting tasks, but no more than `tickets_wanted`; a worker that takes one adds another
# if one is missing. So every worker of every machine finds one, and the installation's own tasks wait behind these few
# at most.


def tickets_wanted() -> int:
    """How many tickets the queue holds at most."""
    return 2 * int(config.workers) + 4


def revive() -> int:
    """Add the tickets that are missing for tasks that have waited for a while; returns how many.

    Tickets are lost with a Redis or a killed worker. Raises: RedisError.
    """
    now = timezone.now()
    # End the leases of this machine's tasks whose worker's parent process has ended.
    leased = OwnerTask.objects.filter(leased_until__gt=now, cluster__startswith=f"{_host()}:")
    clusters = set(leased.values_list("cluster", flat=True))
    dead = [cluster for cluster in clusters if not psutil.pid_exists(int(cluster.rpartition(":")[2]))]
    leased.filter(cluster__in=dead).update(leased_until=None)
    # Tasks that were due a while ago and that no worker has leased.
    due = now - SILENCE
    waiting = len(OwnerTask.objects.filter(_free(due), due_at__lte=due).values_list("pk")[: tickets_wanted()])
    missing = max(0, waiting - sum(1 for _ in waiting_calls(TICKET)))
    for _ in range(missing):
        _add_ticket(at_most=waiting)
    return missing


def waiting_tasks() -> QuerySet[OwnerTask]:
    """Return the tasks of people that no worker has leased."""
    return OwnerTask.objects.filter(_free(timezone.now()))


def tasks_in_work() -> QuerySet[OwnerTask]:
    """Return the tasks of people that a worker has leased."""
    return OwnerTask.objects.filter(leased_until__gt=timezone.now())


def _free(now: datetime) -> Q:
    return Q(leased_until=None) | Q(leased_until__lte=now)


def _add_missing_ticket() -> None:
    """Add a ticket if there are fewer than waiting tasks and fewer than `tickets_wanted`.

    A request sees no tasks of other owners; a function of the database counts them for it.
    """
    wanted = tickets_wanted()
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.core", "count_waiting_tasks"), {"due_by": timezone.now(), "at_most": wanted}
        )
        (waiting,) = cursor.fetchone()
    _add_ticket(at_most=waiting)


def _add_ticket(*, at_most: int) -> None:
    timeout_s = int(config.longest_task_s)
    enqueue(TICKET, at_most=at_most, group="people", save=False, ack_failure=True, timeout=timeout_s)
