"""Computes the installation's figures in Prometheus' text format, on request.

Any web process reports for all processes, because all figures come from the database: counts and durations from
`Measure`, the queue's depth from its rows, coverage from the index's state. Names and labels come from the code; they
contain no text of a user.
"""

import platform
import shutil
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Max, Min
from django.utils import timezone
from django_q.models import Task
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

import convmemory
from convmemory.conversations.models import StoredUse
from convmemory.core.config import config
from convmemory.core.program import COMMAND
from convmemory.core.queue.fair_queue import tasks_in_work, waiting_tasks
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space
from convmemory.ops.models import RestoreCheck, SweepRun
from convmemory.ops.observability.measures import BOUNDS_S, oldest_arrival, totals
from search.indexing.status import count_index

if TYPE_CHECKING:
    from convmemory.ops.models import Measure

LABELS = {
    "search": "mode",
    "embedding": "kind",
    "task": "function",
    "request": "route",
    "response": "class",
    "pool_wait": "login",
    "stream": "caller",
}
"""The name of the label of each measured name; others are called `label`."""

WHAT = {
    "search": "Searches",
    "rerank": "Requests to the reranker",
    "embedding": "Calls of the embedding model for texts (questions are not counted)",
    "task": "Background tasks",
    "request": "HTTP requests",
    "response": "HTTP responses by the class of their status",
    "pool_wait": "Waits of a tenth of a second or more for a connection of the database",
    "stream": "Streams and long answers that were sent, to users and to strangers",
}

LARGEST_OWNERS = 10


def metrics_text(*, backup_at: float | None = None) -> bytes:
    """Return all metrics in the format that Prometheus scrapes; `backup_at` is when the newest backup was written."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    registry.register(_Installation(backup_at))
    return generate_latest(registry)


class _Installation:
    """The versions, sizes and ages of the installation."""

    def __init__(self, backup_at: float | None) -> None:
        self._backup_at = backup_at

    def collect(self) -> Iterator[Metric]:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.ops.observability", "database_bytes"))
            postgres, size = cursor.fetchone()
            cursor.execute(load_sql("convmemory.ops.observability", "audit_entries"))
            (entries,) = cursor.fetchone()
        build = GaugeMetricFamily("convmemory_build_info", "Versions", labels=["version", "python", "postgresql"])
        build.add_metric([convmemory.__version__, platform.python_version(), postgres], 1)
        yield build
        yield GaugeMetricFamily("convmemory_database_bytes", "Size of the database", size)
        yield CounterMetricFamily(
            "convmemory_audit_entries", "Entries of the audit log, deleted ones included", entries
        )
        disk = GaugeMetricFamily(
            "convmemory_disk_bytes", "The disk of the data folder (CONVMEMORY_VAR)", labels=["state"]
        )
        usage = shutil.disk_usage(config.var_dir)
        disk.add_metric(["total"], usage.total)
        disk.add_metric(["free"], usage.free)
        yield disk
        waiting = GaugeMetricFamily(
            "convmemory_queue_oldest_seconds", "How long the oldest task of each kind is due", labels=["function"]
        )
        due = waiting_tasks().exclude(archive=None).filter(due_at__lte=timezone.now())
        for function, at in due.values_list("func").annotate(at=Min("due_at")).order_by("func"):
            waiting.add_metric([function], (timezone.now() - at).total_seconds())
        yield waiting
        swept = GaugeMetricFamily(
            "convmemory_last_sweep_timestamp_seconds", "When the last sweep of each kind began", labels=["kind"]
        )
        for deep, at in SweepRun.objects.values_list("deep").annotate(at=Max("started_at")).order_by("deep"):
            swept.add_metric(["deep" if deep else "quick"], at.timestamp())
        yield swept
        if self._backup_at is not None:
            yield GaugeMetricFamily(
                "convmemory_last_backup_timestamp_seconds",
                "When the newest backup in BACKUP_FOLDER was written",
                self._backup_at,
            )
        for check in RestoreCheck.objects.all():
            yield GaugeMetricFamily(
                "convmemory_last_restore_check_timestamp_seconds",
                f"When a backup was last restored, in earnest or on trial ({COMMAND} restore FILE --check)",
                check.checked_at.timestamp(),
            )
        stored = GaugeMetricFamily(
            "convmemory_owner_stored_bytes", f"What the {LARGEST_OWNERS} largest owners have stored", labels=["owner"]
        )
        for archive_id, count in StoredUse.objects.order_by("-stored_bytes").values_list("archive_id", "stored_bytes")[
            :LARGEST_OWNERS
        ]:
            stored.add_metric([str(archive_id)], count)
        yield stored


class _Collector:
    def collect(self) -> Iterator[Metric]:
        rows = totals()
        by_name: dict[str, list[Measure]] = {}
        for row in rows:
            by_name.setdefault(row.name, []).append(row)
        for name, group in by_name.items():
            label, what = [LABELS.get(name, "label")], WHAT.get(name, name)
            durations = HistogramMetricFamily(f"convmemory_{name}_duration_seconds", f"{what}: how long", labels=label)
            items = CounterMetricFamily(f"convmemory_{name}_items", f"{what}: what they worked on", labels=label)
            failures = CounterMetricFamily(f"convmemory_{name}_failures", f"{what} that failed", labels=label)
            for row in group:
                bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
                cumulative = list(zip(bounds, accumulate(row.buckets), strict=True))
                durations.add_metric([row.label], cumulative, row.seconds)
                items.add_metric([row.label], row.items)
                failures.add_metric([row.label], row.failures)
            yield from (durations, items, failures)
        depth = GaugeMetricFamily("convmemory_queue_tasks", "Tasks in the queue", labels=["state"])
        depth.add_metric(["waiting"], waiting_tasks().count())
        depth.add_metric(["running"], tasks_in_work().count())
        yield depth
        oldest = oldest_arrival()
        age = (timezone.now() - oldest).total_seconds() if oldest else 0.0
        yield GaugeMetricFamily("convmemory_queue_oldest_task_seconds", "How long the oldest waiting task waits", age)
        failed = Task.objects.filter(success=False).count()
        yield GaugeMetricFamily("convmemory_failed_tasks", "Tasks in the history that failed", failed)
        space, counts = active_space(), count_index(archive_id=None)
        turns = GaugeMetricFamily("convmemory_turns", "Turns by the state of their index", labels=["state"])
        states = {"all": counts.items, "behind": counts.pending, "given_up": counts.given_up, "failed": counts.failed}
        for state, count in states.items():
            turns.add_metric([state], count)
        yield turns
        waits_s = (timezone.now() - counts.behind_since).total_seconds() if counts.behind_since else 0.0
        yield GaugeMetricFamily(
            "convmemory_oldest_unindexed_seconds",
            "How long the oldest change of a conversation or document waits",
            waits_s,
        )
        yield GaugeMetricFamily("convmemory_conversations", "Conversations", counts.sources)
        yield GaugeMetricFamily("convmemory_messages", "Messages", counts.elements)
        yield GaugeMetricFamily("convmemory_passages", "Passages of the active space", counts.passages)
        yield GaugeMetricFamily("convmemory_users", "Accounts", User.objects.count())
        info = GaugeMetricFamily(
            "convmemory_active_space_info", "The active embedding space", labels=["provider", "model"]
        )
        info.add_metric([space.provider, space.model], 1)
        yield info
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.ops.observability", "table_bytes"))
            rows = cursor.fetchall()
        sizes = GaugeMetricFamily("convmemory_table_bytes", "Bytes of a table with its indexes", labels=["table"])
        for table, size in rows:
            sizes.add_metric([table], size)
        yield sizes
