"""The queue: tasks of users, which take turns, and those of the installation.

Reads and writes `OwnerTask` and `OwnerService`. Turns go to the person who asked and then to the archive, so that the
few tasks of one person never wait behind the many of another, however many archives these are in. A worker chooses its
task when it is free, not before: `broker` only wakes it. Reasons: docs/adr/0024-fair-scheduling-by-owner.md.
"""

import json
import logging
import os
import re
import signal
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from pydoc import locate
from typing import Any

import psutil
from django.db import connection, transaction
from django.db.models import Case, F, Q, QuerySet, When
from django.utils import timezone

from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.models import OwnerService, OwnerTask
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash

MAX_ATTEMPTS = 5
RETRY_AFTER = timedelta(minutes=1)  # doubled with every attempt that failed
LEASE = timedelta(minutes=2)  # of a task that stops after some seconds; a killed worker's is taken up again after it
LEASE_MARGIN = timedelta(minutes=1)  # of a task that cannot stop, beyond its time limit
KEY_CHARS = 40
MAX_MORE = 32  # tasks that a worker may add to the one in work
OWNER_TASK, IS_LONG, IS_UNRECORDED = "runs_for_owner", "is_long", "is_unrecorded"

TASK_NAME = re.compile(r"(?:convmemory(?:\.[a-z_]+)+|memory|search|summaries)\.(?:[a-z]+_)?tasks\.[a-z][a-z_]*")
"""Functions in modules `tasks` and `*_tasks` of this program, which rows may name as tasks of the installation."""

MOVED = {"convmemory.ops.sweep_tasks": "convmemory.ops.tasks"}
"""Modules of tasks by the names under which version 0.1 has scheduled them."""

Task = Callable[..., dict[str, Any]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """Describes the task that a worker ran, as the history names it, and whether it belongs there."""

    task_id: str
    func: str
    args: tuple[Any, ...]
    group: str
    is_recorded: bool


last_work: ContextVar[Work | None] = ContextVar("last_work", default=None)
"""The last work of this process, until its next task starts."""

_in_work: ContextVar[OwnerTask | None] = ContextVar("in_work", default=None)
"""The task that this process works on."""


def task(*, long: bool = False) -> Callable[[Task], Task]:
    """Mark a function of an app's `tasks` module as one that runs for a person: `enqueue_for` may name it.

    It is called with that person's id as `archive_id`, in addition to the arguments of the task. A long one cannot stop
    after a slice: it waits for a child process or for a model. Long tasks never take the last free worker of a machine
    that has several, and those of one owner leave one of the other places to another owner's where a machine has two.
    """

    def mark(function: Task) -> Task:
        setattr(function, OWNER_TASK, True)
        setattr(function, IS_LONG, long)
        return function

    return mark


def unrecorded(function: Task) -> Task:
    """Mark a task that enters the history only if it fails."""
    setattr(function, IS_UNRECORDED, True)
    return function


def enqueue_for(
    archive_id: int,
    func: str,
    *args: Any,
    group: str = "",
    as_of: datetime | None = None,
    person_id: int | None = None,
) -> bool:
    """Request that a worker runs `func`, the path of a `task`, for an owner; False if that owner is gone.

    Of an owner's tasks the newest is next; for content from the past, `as_of` says how old it is. A second request for
    the same task adds none. `func` stops after `slice_end` and returns `again_in_s` if work is left; a function that
    cannot stop is a long `task`. In a space it takes the turn of `person_id`, or of the member who acts.
    """
    who = acting.current()
    if person_id is None and who.archive_id == archive_id:
        person_id = who.adds_for
    # A reader of a space may request its upkeep, such as the drawing of a page, though they change nothing else.
    with acting.acting_for(archive_id) if who.person_id is not None and who.archive_id == archive_id else nullcontext():
        return _ask(
            func,
            args,
            key=task_key(func, args, archive_id=archive_id),
            owner=archive_id,
            person=person_id,
            group=group,
            is_long=getattr(function_of(func), IS_LONG, False),
            as_of=as_of,
        )


def enqueue(func: str, *args: Any, group: str = "", task_id: str = "") -> None:
    """Request that a worker runs `func`, a task of the installation, unless it already waits with these arguments."""
    _ask(func, args, key=task_key(func, args), group=group, task_id=task_id)


def _ask(
    func: str,
    args: Sequence[Any],
    *,
    key: str,
    owner: int | None = None,
    person: int | None = None,
    group: str,
    is_long: bool = False,
    as_of: datetime | None = None,
    task_id: str = "",
) -> bool:
    now = timezone.now()
    parameters: dict[str, Any] = {
        "owner": owner,
        "person": person,
        "task_id": task_id or uuid.uuid4(),
        "key": key,
        "func": func,
        "args": json.dumps(args),
        "group": group,
        "is_long": is_long,
        "now": now,
        "as_of": min(as_of or now, now),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "ask_for_task"), parameters)
        return cursor.fetchone() is not None


def asked_for(func: str) -> QuerySet[OwnerTask]:
    """Return the tasks with this function that wait or are in work."""
    return OwnerTask.objects.filter(func=func)


def task_key(func: str, args: Sequence[Any], *, archive_id: int | None = None) -> str:
    """Return the key by which a repeated request finds its task: `func:argument`, or a hash of owner and arguments.

    A single argument is the number of a row, which belongs to one owner.
    """
    argument = str(args[0]) if len(args) == 1 else ""
    hashed = content_hash(json.dumps([archive_id, *args])).hex()[:KEY_CHARS]
    return f"{func}:{argument if 0 < len(argument) <= KEY_CHARS else hashed}"


def slice_end() -> float:
    """Return the `time.monotonic()` at which a task that starts now should make room for others."""
    return time.monotonic() + float(config.task_slice_s)


def work() -> dict[str, Any]:
    """Choose a task, run it for a slice, and put it back if work is left; without a task, do nothing.

    Tasks are chosen and put back as maintenance; the work itself is done as its owner.
    """
    task = claim()
    if task is None:
        return {}
    call = (task.task_id.hex, task.func, tuple(task.args), task.group)
    last_work.set(Work(*call, is_recorded=False))
    in_work = _in_work.set(task)
    _limit_time()
    try:
        function = find_task(task.func) if task.archive_id is None else function_of(task.func)
        if function is None:
            raise ValueError(f"{task.func!r} is no task of this program.")
        if task.archive_id is None:
            result = function(*task.args)
        else:
            with acting.acting_for(task.archive_id, caused_by=task.person_id):
                result = function(*task.args, archive_id=task.archive_id)
    except Exception:
        _put_back(task, attempts=task.attempts, pause=RETRY_AFTER * 2**task.attempts)
        raise
    finally:
        _in_work.reset(in_work)
    again_in_s = result.get("again_in_s")
    last_work.set(Work(*call, is_recorded=again_in_s is None and not getattr(function, IS_UNRECORDED, False)))
    if again_in_s is not None:
        attempts = task.attempts - 1 if again_in_s else 0  # a pause means no progress was possible, not failure
        _put_back(task, attempts=attempts, pause=timedelta(seconds=again_in_s))
    elif not _own(task).filter(version=task.version).delete()[0]:
        _put_back(task, attempts=0, pause=timedelta())  # asked for again meanwhile
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


def take_more(choose: Callable[[list[OwnerTask]], list[OwnerTask]]) -> list[OwnerTask]:
    """Lease further tasks like the one in work: those that `choose` returns of the ones that wait, the next first.

    They have its function, owner and person. A task that was tried before is tried alone, so that one which kills its
    worker takes no other with it. The caller passes all of them to `end_more`.
    """
    task = _in_work.get()
    if task is None or task.attempts > 1:
        return []
    now = timezone.now()
    of_caller = {"func": task.func, "archive_id": task.archive_id, "person_id": task.person_id}
    alike = OwnerTask.objects.filter(_free(now), due_at__lte=now, attempts=0, slices=0, **of_caller)
    alike = alike.order_by("-asked_at", "-pk")
    chosen = choose(list(alike[:MAX_MORE]))
    if not chosen:
        return []
    with transaction.atomic():
        more = list(alike.select_for_update(skip_locked=True).filter(pk__in=[row.pk for row in chosen]))
        for row in more:
            row.leased_until, row.cluster, row.attempts = task.leased_until, task.cluster, 1
        OwnerTask.objects.bulk_update(more, ["leased_until", "cluster", "attempts"])
    return more


def end_more(tasks: Sequence[OwnerTask], *, begun: Sequence[OwnerTask], finished: Sequence[OwnerTask]) -> None:
    """Delete those of the tasks of `take_more` that are finished, unless they were requested again meanwhile.

    The others are put back; one that was begun and is not finished is tried alone from then on.
    """
    if not tasks:
        return
    leased = OwnerTask.objects.filter(pk__in=[task.pk for task in tasks], leased_until=tasks[0].leased_until)
    done = Q(pk__in=[])
    for task in finished:
        done |= Q(pk=task.pk, version=task.version)
    tried = {task.pk for task in begun} - {task.pk for task in finished}
    with transaction.atomic():
        leased.filter(done).delete()
        leased.update(leased_until=None, attempts=Case(When(pk__in=tried, then=F("attempts")), default=0))


def _limit_time() -> None:
    """Shorten the time limit that the broker set for a worker, which is that of the longest task."""
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.alarm(int(config.task_timeout_s))


def claim(now: datetime | None = None) -> OwnerTask | None:
    """Lease the next task to this worker and return it; None if none is due. Workers choose one after the other."""
    now = now or timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "one_at_a_time"), [AdvisoryLock.CLAIM])
        # Delete tasks that failed or killed their worker `MAX_ATTEMPTS` times; the sweeps find work that is left
        # undone.
        dead = OwnerTask.objects.filter(attempts__gte=MAX_ATTEMPTS).filter(_free(now))
        for func, archive_id in dead.values_list("func", "archive_id"):
            logger.error("%s for user %s is given up after %d attempts", func, archive_id, MAX_ATTEMPTS)
        dead.delete()
        pk = next_task(now)
        if pk is None:
            return None
        task = OwnerTask.objects.get(pk=pk)
        can_stop = task.archive_id is not None and not task.is_long
        lease = LEASE if can_stop else timedelta(seconds=config.task_timeout_s) + LEASE_MARGIN
        task.leased_until, task.cluster, task.attempts = now + lease, _cluster(), task.attempts + 1
        if task.archive_id is None:
            # A request during the work adds another task: else a killed worker's sweep would keep all sweeps waiting
            # until its lease ends.
            task.key = f"{task.key.partition('#')[0]}#{task.pk}"
        else:
            served = {"person_id": task.person_id, "archive_id": task.archive_id}
            if not OwnerService.objects.filter(**served).update(served_at=now):
                OwnerService.objects.create(**served, served_at=now)
        task.save(update_fields=["leased_until", "cluster", "attempts", "key"])
    return task


def can_begin() -> bool:
    """Return whether a worker of this machine would find a task now; an idle one asks the first question alone."""
    now = timezone.now()
    return OwnerTask.objects.filter(_free(now), due_at__lte=now).exists() and next_task(now) is not None


def next_task(now: datetime) -> int | None:
    """Return the id of the task that a worker of this machine would choose now."""
    most_long = max(1, config.workers - 1)
    parameters: dict[str, Any] = {
        "now": now,
        "cluster": _cluster(),
        "most_long": most_long,
        "most_long_of_caller": max(1, most_long - 1),
        "keeps_one_free": config.workers > 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "next_task"), parameters)
        row = cursor.fetchone()
    return row[0] if row else None


def _put_back(task: OwnerTask, *, attempts: int, pause: timedelta) -> None:
    due_at = timezone.now() + pause
    _own(task).update(leased_until=None, due_at=due_at, attempts=attempts, slices=F("slices") + 1)


def _own(task: OwnerTask) -> QuerySet[OwnerTask]:
    """Return the row, if the lease is still this worker's."""
    return OwnerTask.objects.filter(pk=task.pk, leased_until=task.leased_until)


def function_of(path: str) -> Task | None:
    """Return the `task` of that name; None for any other code, which a row must not be able to name."""
    app, _, name = path.rpartition(".")[0].rpartition(".")
    task = locate(path) if name == "tasks" and app in config.installed_apps else None
    return task if callable(task) and getattr(task, OWNER_TASK, False) else None


def is_task(name: object) -> bool:
    """Return whether a worker would run a function of this name."""
    return isinstance(name, str) and TASK_NAME.fullmatch(name) is not None


def find_task(name: object) -> Task | None:
    """Return the task of the installation or of an owner with this name; None for any other function."""
    module, _, function = str(name).rpartition(".")
    task = locate(f"{MOVED.get(module, module)}.{function}") if is_task(name) else None
    return task if callable(task) else None


def _cluster() -> str:
    """Return the name that the workers of one `manage.py worker` share."""
    return f"{_host()}:{os.getppid()}"


def _host() -> str:
    return socket.gethostname()[:80]


def release_leases() -> None:
    """End the leases of this machine's tasks whose worker's parent process has ended."""
    leased = OwnerTask.objects.filter(leased_until__gt=timezone.now(), cluster__startswith=f"{_host()}:")
    clusters = set(leased.values_list("cluster", flat=True))
    dead = [cluster for cluster in clusters if not psutil.pid_exists(int(cluster.rpartition(":")[2]))]
    if dead:
        leased.filter(cluster__in=dead).update(leased_until=None)


def waiting_tasks() -> QuerySet[OwnerTask]:
    """Return the tasks that no worker has leased."""
    return OwnerTask.objects.filter(_free(timezone.now()))


def tasks_in_work() -> QuerySet[OwnerTask]:
    """Return the tasks that a worker has leased."""
    return OwnerTask.objects.filter(leased_until__gt=timezone.now())


def _free(now: datetime) -> Q:
    return Q(leased_until=None) | Q(leased_until__lte=now)
