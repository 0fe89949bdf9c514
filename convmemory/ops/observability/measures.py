"""Counts and durations of the work of an installation's processes: of tasks, and of those that wait.

Each process adds up its measurements in memory; a thread adds them to `Measure` every `MEASURES_FLUSH_S` seconds, so
that a search writes nothing. A process that is killed loses at most the measurements since then. Charts read `hourly`,
`/metrics` reads `totals`. See docs/adr/0017-metrics-from-the-database.md.
"""

import logging
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from multiprocessing.util import Finalize
from typing import Any

from django.db import DatabaseError, InterfaceError, connection, transaction
from django.db.models import Min
from django.utils import timezone
from django_q.humanhash import humanize
from django_q.signals import post_execute_in_worker, pre_execute

from convmemory.core import logs
from convmemory.core.config import config
from convmemory.core.measuring import Measurement, report
from convmemory.core.queue import fair_queue
from convmemory.core.queue.fair_queue import waiting_tasks
from convmemory.core.sql import load_sql
from convmemory.ops.models import Measure

logger = logging.getLogger(__name__)

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""Upper bounds of the buckets, in seconds; one more bucket is for longer durations."""

KEPT_DAYS = 90
FLUSH_AT_EXIT_PRIORITY = 10  # before the pools are closed

Key = tuple[str, str, datetime]


@dataclass(slots=True)
class _Sums:
    count: int = 0
    items: int = 0
    failures: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))

    def add(self, other: "_Sums") -> None:
        self.count += other.count
        self.items += other.items
        self.failures += other.failures
        self.seconds += other.seconds
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]


class _Pending:
    """The counts of this process that are not stored yet."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock = threading.Lock()
        self.sums: dict[Key, _Sums] = {}
        self.thread: threading.Thread | None = None

    def take(self) -> dict[Key, _Sums]:
        with self.lock:
            taken, self.sums = self.sums, {}
        return taken

    def put(self, sums: dict[Key, _Sums]) -> None:
        with self.lock:
            for key, item in sums.items():
                self.sums.setdefault(key, _Sums()).add(item)


_pending = _Pending()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pending.reset)


def on_measured(sender: Any, *, measurement: Measurement, **kwargs: Any) -> None:
    """Count a measurement in memory."""
    bucket = bisect_left(BOUNDS_S, measurement.seconds)
    one = _Sums(1, measurement.items, int(measurement.failed), measurement.seconds)
    one.buckets[bucket] = 1
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    _pending.put({(measurement.name[:50], measurement.label[:120], hour): one})
    if _pending.thread is None and config.measures_flush_s > 0:
        _start_thread()


def flush() -> None:
    """Add this process's counts to the database; they are kept for later if that fails."""
    taken = _pending.take()
    if not taken:
        return
    try:
        ever: dict[tuple[str, str], _Sums] = {}
        for (name, label, _), item in taken.items():
            ever.setdefault((name, label), _Sums()).add(item)
        # Sorted, so that two processes take the rows' locks in the same order.
        rows = [_row(name, label, None, item) for (name, label), item in sorted(ever.items(), key=_first)]
        rows += [_row(*key, item) for key, item in sorted(taken.items(), key=_first)]
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(load_sql("convmemory.ops.observability", "add_measure"), rows)
    except (DatabaseError, InterfaceError) as error:
        _pending.put(taken)
        logger.warning("Measurements wait, the database does not take them: %s", type(error).__name__)


def totals() -> list[Measure]:
    """Return the counts since the installation, by name and label."""
    return list(Measure.objects.filter(hour=None).order_by("name", "label"))


def hourly(name: str, *, since: datetime, label: str | None = None) -> list[Measure]:
    """Return the counts of each hour and label from `since` on, oldest first; hours without any have no row."""
    rows = Measure.objects.filter(name=name, hour__gte=since)
    return list((rows if label is None else rows.filter(label=label)).order_by("hour", "label"))


def quantile_s(buckets: Sequence[int], share: float) -> float | None:
    """Return the duration that `share` of the counts did not exceed, interpolated; None without counts."""
    rank = sum(buckets) * share
    if not rank:
        return None
    seen, lower = 0, 0.0
    for count, upper in zip(buckets, (*BOUNDS_S, BOUNDS_S[-1]), strict=True):
        if count and seen + count >= rank:
            return lower + (upper - lower) * (rank - seen) / count
        seen, lower = seen + count, upper
    return lower


def prune() -> int:
    """Delete hourly counts too old for charts; return the number of rows."""
    deleted, _ = Measure.objects.filter(hour__lt=timezone.now() - timedelta(days=KEPT_DAYS)).delete()
    return deleted


def _first(pair: tuple[Any, _Sums]) -> Any:
    return pair[0]


def _row(name: str, label: str, hour: datetime | None, item: _Sums) -> tuple[Any, ...]:
    return (name, label, hour, item.count, item.items, item.failures, item.seconds, item.buckets)


def _start_thread() -> None:
    with _pending.lock:
        if _pending.thread is not None:
            return
        _pending.thread = threading.Thread(target=_flush_forever, name="measures", daemon=True)
    Finalize(None, flush, exitpriority=FLUSH_AT_EXIT_PRIORITY)
    _pending.thread.start()


def _flush_forever() -> None:
    pause = threading.Event()
    while True:
        pause.wait(config.measures_flush_s)
        flush()
        connection.close()


def connect() -> None:
    pre_execute.connect(on_start, dispatch_uid="ops.task_start")
    post_execute_in_worker.connect(on_end, dispatch_uid="ops.task_end")


def on_start(sender: Any, *, task: dict[str, Any], **kwargs: Any) -> None:
    logs.task_id.set(str(task["id"]))
    fair_queue.last_work.set(None)
    task["started_at_s"] = time.monotonic()


def on_end(sender: Any, *, task: dict[str, Any], **kwargs: Any) -> None:
    """Log and count the end of a task. Arguments and results are not logged: they can contain private text."""
    seconds = time.monotonic() - task.pop("started_at_s", time.monotonic())
    # Enter the entry of the broker in the history as the task that it led to, once that has ended or failed.
    done = fair_queue.last_work.get()
    if done is not None:
        task.update(id=done.task_id, name=humanize(done.task_id), func=done.func, args=done.args, group=done.group)
        task["save"] = done.is_recorded
    failed = not task.get("success", False)
    name = task["func"] if isinstance(task["func"], str) else getattr(task["func"], "__qualname__", "callable")
    level = logging.ERROR if failed else logging.DEBUG
    logger.log(level, "The task %s %s after %.3f s", name, "failed" if failed else "ended", seconds)
    report(Measurement("task", name, seconds, failed=failed))
    logs.task_id.set("")


def oldest_arrival() -> datetime | None:
    """Return since when the oldest waiting task has been due."""
    due = waiting_tasks().filter(due_at__lte=timezone.now())
    oldest: datetime | None = due.aggregate(at=Min("due_at"))["at"]
    return oldest
