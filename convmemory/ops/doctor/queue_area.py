"""The queue: whether a worker is running, which tasks have waited too long, which have failed."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import Failure, Schedule

from convmemory.core.fair_queue import tasks_in_work, waiting_tasks
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity, plural
from convmemory.ops.models import SweepRun
from convmemory.ops.observability.waiting import oldest_arrival, waiting_count
from convmemory.ops.runtime import schedules

# The sweep runs every minute if a worker lives anywhere.
OVERDUE = timedelta(minutes=5)
WAITING = timedelta(minutes=15)
RECENT = timedelta(days=1)


def facts() -> Iterator[Fact]:
    broker = get_broker()
    yield "queue", f"{broker.info()}, {plural(broker.queue_size(), 'task')} waiting, {broker.lock_size() or 0} in work"
    people = waiting_tasks().values("owner").distinct().count()
    of_people = f"{plural(waiting_tasks().count(), 'task')} of {plural(people, 'user')} waiting"
    yield "queue by owner", f"{of_people}, {tasks_in_work().count()} in work"
    last = SweepRun.objects.order_by("-started_at").first()
    yield "last sweep", f"{last.started_at:%Y-%m-%d %H:%M:%S}, found {last.found}" if last else "never"


def check_schedules() -> Iterator[Finding]:
    present = set(Schedule.objects.values_list("name", flat=True))
    missing = [name for name in schedules.SCHEDULES if name not in present]
    if not missing:
        return

    def make() -> str:
        schedules.ensure_schedules()
        return f"{', '.join(missing)}: scheduled."

    yield Finding(
        "queue.schedule-missing",
        Severity.ERROR,
        f"Not scheduled: {', '.join(missing)}. Work that is missed stays undone.",
        "Start `manage.py up` or `manage.py worker` once, which schedules them.",
        make,
    )


def check_workers() -> Iterator[Finding]:
    last = SweepRun.objects.order_by("-started_at").values_list("started_at", flat=True).first()
    if last and last >= timezone.now() - OVERDUE:
        return
    if not Schedule.objects.filter(next_run__lt=timezone.now() - OVERDUE).exists():
        return  # just installed
    yield Finding(
        "queue.no-worker",
        Severity.ERROR,
        f"No worker is running: the sweep, which runs every minute, last ran {_ago(last)}.",
        "Start `manage.py up`, or `manage.py worker` on a machine that does background work, and read its output.",
    )


def check_waiting() -> Iterator[Finding]:
    if (arrived := oldest_arrival()) and arrived < timezone.now() - WAITING:
        yield Finding(
            "queue.waiting",
            Severity.WARNING,
            f"The oldest task of {plural(waiting_count(), 'task')} has been waiting since {_ago(arrived)}.",
            "Check that workers are running (queue.no-worker); after a large import just wait, or raise WORKERS.",
        )


def check_failures() -> Iterator[Finding]:
    failures = Failure.objects.filter(stopped__gte=timezone.now() - RECENT)
    by_function = failures.values_list("func").annotate(count=Count("pk")).order_by("-count")
    for function, count in by_function:
        yield Finding(
            "queue.failures",
            Severity.WARNING,
            f"{plural(count, 'task')} {function} failed within a day.",
            "The worker's log and the failed tasks in the admin say why; the sweep retries what can be retried.",
        )


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    minutes = int((timezone.now() - moment).total_seconds() // 60)
    return f"{plural(minutes, 'minute')} ago" if minutes < 120 else f"{plural(minutes // 60, 'hour')} ago"


AREA = Area("queue", facts, (check_schedules, check_workers, check_waiting, check_failures))
