"""Measures the index of the whole installation in a task, so that the dashboard need not scan tables.

Reads all apps' tables, writes `IndexSample`.
"""

import re
from collections import Counter
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from django_q.models import Failure

from convmemory.core.queue.fair_queue import waiting_tasks
from convmemory.core.sql import load_sql
from convmemory.ops.models import IndexSample
from search.indexing.status import count_index

KEPT_DAYS = 30
REASONS = 10
# Python groups these by the text of their result, so their number is bounded.
TASKS_READ = 200
ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]*")


def take_sample() -> IndexSample:
    """Count once, store the counts, and delete samples older than `KEPT_DAYS`."""
    counts = count_index(archive_id=None)
    names = ("space", "name", "active", "turns", "passages")
    sample = IndexSample.objects.create(
        turns=counts.items,
        pending=counts.pending,
        failed=counts.failed + counts.given_up,
        queued=waiting_tasks().count(),
        spaces=[dict(zip(names, row, strict=True)) for row in _rows("space_coverage", {})],
        reasons=failure_reasons(),
    )
    IndexSample.objects.filter(taken_at__lt=timezone.now() - timedelta(days=KEPT_DAYS)).delete()
    return sample


def failure_reasons() -> list[dict[str, Any]]:
    """Return the failures with their reasons: for the index by message, for tasks by the class of the error alone."""
    reasons = [
        {"what": what, "reason": reason, "count": count}
        for what, reason, count in _rows("failure_reasons", {"limit": REASONS})
    ]
    tasks = Counter((task.func, error_kind(task.result)) for task in Failure.objects.order_by("-stopped")[:TASKS_READ])
    reasons += [
        {"what": func, "reason": reason, "count": count} for (func, reason), count in tasks.most_common(REASONS)
    ]
    return reasons


def error_kind(result: object) -> str:
    """Return the class of a failed task's error, without its message, which can quote texts of users."""
    _, heading, frames = str(result or "").rpartition("Traceback (most recent call last):\n")
    after_frames = next((line for line in frames.splitlines() if line and not line.startswith(" ")), "")
    name = ERROR_CLASS.match(after_frames) if heading else None
    return name.group() if name else "ended from outside"


def _rows(name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.observability", name), parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
