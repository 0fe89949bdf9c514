"""What this program replaces of django-q2: its broker, its pickles, and a process that SIGTERM cannot stop.

django-q2 supervises the worker processes, limits their time and keeps the history. The tasks are rows of `fair_queue`.
"""

import json
import multiprocessing
import os
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from django import db
from django.db.models.signals import post_save
from django.utils import timezone
from django_q import cluster, signals
from django_q.brokers import Broker
from django_q.conf import Conf
from django_q.exceptions import TimeoutException
from django_q.models import Task
from django_q.signing import SignedPackage

from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError
from convmemory.core.logs import safe_traceback
from convmemory.core.queue import fair_queue
from convmemory.core.text import content_hash

RELEASE_S = 10.0  # between two looks for clusters of this machine that were killed
ALIVE_S = 30.0  # the sentinel writes twice a second, but may wait for the database meanwhile


class TaskFailed(ConvMemoryError):
    """A task raised an error; the message names its place and class."""


class FairBroker(Broker):  # type: ignore[misc]
    """Gives django-q2 an entry for each worker that a task waits for. `Q_CLUSTER["broker_class"]` names it.

    django-q2 takes entries from the broker before a worker is free. So an entry names no task, and the worker chooses
    one when it begins (`run_next`). Nothing is acknowledged: the worker deletes the row of a task that is done.
    """

    release_at = 0.0

    def enqueue(self, task: str) -> None:
        """Store a periodic task. django-q2's scheduler has pickled and signed it in this process just before."""
        call = SignedPackage.loads(task)
        if fair_queue.is_task(call["func"]) and not call["kwargs"]:
            group = str(call.get("group") or "")[:50]
            fair_queue.enqueue(call["func"], *call["args"], group=group, task_id=call["id"])
        else:
            fair_queue.logger.error("%.200r is no task of this program", call["func"])

    def dequeue(self) -> list[tuple[None, str]]:
        """Return an entry if a worker of this machine could begin a task now; else wait for a moment."""
        with acting.maintenance():
            db.close_old_connections()
            if time.monotonic() >= self.release_at:
                self.release_at = time.monotonic() + RELEASE_S
                fair_queue.release_leases()
            if not fair_queue.can_begin():
                time.sleep(Conf.POLL)
                return []
        return [(None, SignedPackage.dumps(entry()))]

    def queue_size(self) -> int:
        return fair_queue.waiting_tasks().count()

    def lock_size(self) -> int:
        return fair_queue.tasks_in_work().count()

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "PostgreSQL"

    @staticmethod
    def get_cache() -> None:
        """Return no cache: states of clusters, which django-q2 pickles, are stored nowhere."""

    def set_stat(self, key: str, value: str, timeout: int) -> None:
        """Record that the sentinel of this machine runs, which calls it twice a second."""
        heartbeat().touch()


def entry() -> dict[str, Any]:
    """Return an entry for one worker. Its time limit is that of the longest task; each task shortens it."""
    return {
        "id": uuid.uuid4().hex,
        "name": "next task",
        "func": run_next,
        "args": (),
        "kwargs": {},
        "started": timezone.now(),
        "save": False,
        "timeout": int(config.longest_task_s),
    }


def run_next() -> dict[str, Any]:
    """Run the task that is next, as maintenance; report its errors without private text."""
    try:
        with acting.maintenance():
            return fair_queue.work()
    except TimeoutException as error:
        raise TimeoutException(safe_traceback(error)) from None
    except Exception as error:  # a task's boundary: django-q2 stores and logs the error
        raise TaskFailed(safe_traceback(error)) from None


def heartbeat() -> Path:
    """Return the file whose time says when a worker of this machine last ran."""
    installation = content_hash(str(config.var_dir)).hex()[:12]
    return Path(tempfile.gettempdir()) / f"convmemory-worker-{installation}-{os.getuid()}"


def worker_runs() -> bool:
    """Return whether a worker of this machine has run within `ALIVE_S`."""
    try:
        return time.time() - heartbeat().stat().st_mtime < ALIVE_S
    except FileNotFoundError:
        return False


class Sentinel(cluster.Sentinel):  # type: ignore[misc]
    """The process that starts, watches and stops the worker processes.

    django-q2's main process sets an event that its sentinel waits for. A sentinel that dies of the same SIGTERM, as
    with systemd's `KillMode=control-group`, never wakes, and `multiprocessing` waits for that without a limit; a worker
    process that dies while it waits for a task keeps the lock of the queue. Here only the main process obeys the
    signal, and tasks in work are completed.
    """

    def start(self) -> None:
        # Forked processes inherit it. Programs that tasks start do not, as they would SIG_IGN, and end when told.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        try:
            super().start()
        finally:
            for child in multiprocessing.active_children():
                child.kill()  # Python would send SIGTERM and wait

    def reincarnate(self, process: Any) -> None:
        """Replace a process that has ended, or that exceeds the time limit of its task."""
        if process in self.pool and process.timer.value == 0:
            process.kill()
        super().reincarnate(process)


def install() -> None:
    """Replace two names of django-q2 that it has no setting for. Runs once per process, before the first query."""
    # `Cluster.start` names its sentinel itself.
    cluster.Sentinel = Sentinel
    # The history's columns are pickles, and reading one runs the code in it: one forged row would run code in the
    # administration. They become JSON; pickles of earlier versions count as unreadable.
    field = type(Task._meta.get_field("args"))
    field.to_python = lambda self, value: value
    field.from_db_value = lambda self, value, expression, connection: _stored(value)
    field.get_db_prep_value = lambda self, value, connection=None, prepared=False: (
        None if value is None else json.dumps(value, default=str)
    )
    # Calls whatever function a row of the history names as its hook.
    post_save.disconnect(signals.call_hook, sender=Task)


def _stored(text: str | None) -> Any:
    """Return the value of a history column; None if it is unreadable."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
