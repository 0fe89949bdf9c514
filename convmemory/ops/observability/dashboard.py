"""The dashboard: samples, hourly counts and sizes from the catalogue, as panels of charts and tables.

Each query reads a bounded number of rows, however large the archive is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from convmemory.core.sql import load_sql
from convmemory.ops.models import IndexSample
from convmemory.ops.observability.charts import Bar, LineChart, Series, bars, line_chart, size_text
from convmemory.ops.observability.measures import BOUNDS_S, hourly, quantile_s

DAYS = 7
SIZES = 20
TABLE_ROWS = 48


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart with a table of the same values."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    chart: LineChart | None = None
    bars: Sequence[Bar] = field(default=())


def last_sample() -> IndexSample | None:
    """Return the newest measurement of the index."""
    return IndexSample.objects.order_by("-taken_at").first()


def panels() -> list[Panel]:
    """Return all panels, in the order in which they are shown."""
    since = timezone.now() - timedelta(days=DAYS)
    samples = list(IndexSample.objects.filter(taken_at__gte=since).order_by("taken_at"))
    newest = samples[-1] if samples else None
    return [
        coverage_panel(newest),
        backlog_panel(samples),
        throughput_panel(since),
        latency_panel(since),
        reasons_panel(newest),
        sizes_panel(),
    ]


def coverage_panel(sample: IndexSample | None) -> Panel:
    """Return the share of all turns that has a vector, for each space."""
    spaces: list[dict[str, Any]] = sample.spaces if sample else []
    turns = sample.turns if sample else 0
    names = [f"{space['name']}{' (active)' if space['active'] else ''}" for space in spaces]
    values = [
        (name, float(space["turns"]), f"{space['turns']:,} of {turns:,} turns")
        for name, space in zip(names, spaces, strict=True)
    ]
    rows = [(name, space["turns"], space["passages"]) for name, space in zip(names, spaces, strict=True)]
    return Panel(
        "Coverage per embedding space",
        "Turns with a vector, of all complete turns.",
        ("Space", "Turns", "Passages"),
        rows,
        bars=bars(values, full=float(turns)),
    )


def backlog_panel(samples: Sequence[IndexSample]) -> Panel:
    """Return the numbers of waiting and failed items over time."""
    series = [
        Series(name, [(sample.taken_at.timestamp(), float(getattr(sample, attribute))) for sample in samples])
        for name, attribute in (("turns waiting", "pending"), ("tasks queued", "queued"), ("turns failed", "failed"))
    ]
    rows = [(sample.taken_at, sample.pending, sample.queued, sample.failed) for sample in samples[-TABLE_ROWS:]]
    return Panel(
        "Backlog",
        f"The last {DAYS} days, measured every ten minutes.",
        ("Time", "Turns waiting", "Tasks queued", "Turns failed"),
        rows[::-1],
        chart=line_chart(series, x_text=time_text),
    )


def throughput_panel(since: datetime) -> Panel:
    """Return the number of texts embedded per hour."""
    measures = hourly("embedding", since=since)
    labels = sorted({measure.label for measure in measures})
    series = [
        Series(label, [(hour_of(row).timestamp(), float(row.items)) for row in measures if row.label == label])
        for label in labels
    ]
    rows = [
        (row.hour, row.label, row.items, row.failures, f"{row.items / row.seconds:,.0f}" if row.seconds else "")
        for row in measures[-TABLE_ROWS:]
    ]
    return Panel(
        "Throughput",
        "Texts that the model was asked for, by the hour; cached ones are not among them.",
        ("Hour", "What", "Texts", "Failed batches", "Texts a second"),
        rows[::-1],
        chart=line_chart(series, x_text=time_text),
    )


def latency_panel(since: datetime) -> Panel:
    """Return the duration of searches, in milliseconds, by the hour."""
    by_hour: dict[datetime, list[int]] = {}
    for measure in hourly("search", since=since):
        buckets = by_hour.setdefault(hour_of(measure), [0] * (len(BOUNDS_S) + 1))
        by_hour[hour_of(measure)] = [a + b for a, b in zip(buckets, measure.buckets, strict=True)]
    times = {hour: (_ms(buckets, 0.5), _ms(buckets, 0.95), sum(buckets)) for hour, buckets in by_hour.items()}
    series = [
        Series(name, [(hour.timestamp(), values[index]) for hour, values in times.items()])
        for index, name in enumerate(("median", "95th percentile"))
    ]
    rows = [
        (hour, f"{median:.0f}", f"{slow:.0f}", count)
        for hour, (median, slow, count) in list(times.items())[-TABLE_ROWS:]
    ]
    return Panel(
        "Search latency",
        "Milliseconds, by the hour.",
        ("Hour", "Median, ms", "95th percentile, ms", "Searches"),
        rows[::-1],
        chart=line_chart(series, x_text=time_text),
    )


def reasons_panel(sample: IndexSample | None) -> Panel:
    """Return the reasons of failures."""
    reasons: list[dict[str, Any]] = sample.reasons if sample else []
    values = [(f"{row['what']}: {row['reason']}", float(row["count"]), f"{row['count']:,}") for row in reasons]
    return Panel(
        "Failures by reason",
        "What stands failed now, and failed tasks by the kind of error.",
        ("What", "Reason", "Times"),
        [(row["what"], row["reason"], row["count"]) for row in reasons],
        bars=bars(values, full=max((value for _, value, _ in values), default=0.0)),
    )


def sizes_panel() -> Panel:
    """Return the largest tables and indexes."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.observability", "index_sizes"), {"limit": SIZES})
        rows = cursor.fetchall()
    values = [(name, float(size), size_text(size)) for name, _, size in rows]
    return Panel(
        "Tables and indexes by size",
        f"The {SIZES} largest; a table with what is stored out of line.",
        ("Name", "Index of", "Size"),
        [(name, table, size_text(size)) for name, table, size in rows],
        bars=bars(values[:8], full=values[0][1] if values else 0.0),
    )


def hour_of(measure: Any) -> datetime:
    hour: datetime = measure.hour
    return hour


def time_text(moment: float) -> str:
    """Return day and time of an axis label, in UTC."""
    return f"{datetime.fromtimestamp(moment, UTC):%d %b %H:%M}"


def _ms(buckets: Sequence[int], share: float) -> float:
    return (quantile_s(buckets, share) or 0.0) * 1_000
