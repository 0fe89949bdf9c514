"""Computes the installation's figures in Prometheus' text format, on request.

Any web process reports for all processes, because all figures come from the database: counts and durations from
`Measure`, the queue's depth from its broker, coverage from the index's state. Names and labels come from the code; they
contain no text of a user.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone
from django_q.models import Task
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from redis.exceptions import RedisError

from convmemory.core.postgres import groups
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space
from convmemory.ops.observability.measures import BOUNDS_S, oldest_arrival, totals, waiting_count, working_count
from search.indexing.status import count_index

if TYPE_CHECKING:
    from convmemory.ops.models import Measure

LABELS = {"search": "mode", "embedding": "kind", "task": "function", "request": "route"}
"""The name of the label of each measured name; others are called `label`."""

WHAT = {
    "search": "Searches",
    "rerank": "Requests to the reranker",
    "embedding": "Calls of the embedding model for texts (questions are not counted)",
    "task": "Background tasks",
    "request": "HTTP requests",
}


def metrics_text() -> bytes:
    """Return all metrics in the format that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    return generate_latest(registry)


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
        reachable = GaugeMetricFamily("convmemory_queue_up", "1 where the queue answers")
        depth = GaugeMetricFamily("convmemory_queue_tasks", "Tasks in the queue", labels=["state"])
        try:
            depth.add_metric(["waiting"], waiting_count())
            depth.add_metric(["running"], working_count())
            reachable.add_metric([], 1)
        except RedisError:
            reachable.add_metric([], 0)
        yield from (reachable, depth)
        oldest = oldest_arrival()
        age = (timezone.now() - oldest).total_seconds() if oldest else 0.0
        yield GaugeMetricFamily("convmemory_queue_oldest_task_seconds", "How long the oldest waiting task waits", age)
        failed = Task.objects.filter(success=False).count()
        yield GaugeMetricFamily("convmemory_failed_tasks", "Tasks in the history that failed", failed)
        space, counts = active_space(), count_index(owner_id=None)
        turns = GaugeMetricFamily("convmemory_turns", "Turns by the state of their index", labels=["state"])
        states = {"all": counts.items, "behind": counts.pending, "given_up": counts.given_up, "failed": counts.failed}
        for state, count in states.items():
            turns.add_metric([state], count)
        yield turns
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
            cursor.execute(load_sql("convmemory.ops.observability", "table_bytes"), [groups.schemas()])
            rows = cursor.fetchall()
        sizes = GaugeMetricFamily("convmemory_table_bytes", "Bytes of a table with its indexes", labels=["table"])
        for table, size in rows:
            sizes.add_metric([table], size)
        yield sizes
