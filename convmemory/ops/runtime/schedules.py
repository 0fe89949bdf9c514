"""The periodic tasks, as rows that django-q reads."""

from django.db import transaction
from django_q.models import Schedule

from convmemory.core.queue.fair_queue import enqueue

SWEEP = "convmemory.ops.tasks.sweep"
SCHEDULES: dict[str, tuple[str, int]] = {  # name: (function, minutes between two runs)
    "sweep": (SWEEP, 1),
    "deep sweep": ("convmemory.ops.tasks.deep_sweep", 60),
    "message sweep": ("memory.tasks.sweep", 1),
    "imports": ("convmemory.conversations.tasks.sweep", 1),
    "documents": ("convmemory.documents.tasks.sweep", 1),
    "mail": ("convmemory.accounts.tasks.send_mail", 1),
    "trash": ("convmemory.retention.tasks.sweep", 10),
    "retention": ("convmemory.retention.tasks.sweep_old", 10),
    "summaries": ("summaries.tasks.sweep", 1),
    "index sample": ("convmemory.ops.dashboard_tasks.sample_index", 10),
    "alerts": ("convmemory.ops.tasks.send_alerts", 60),
    "erasures": ("convmemory.ops.tasks.finish_erasures", 10),
    "old archives": ("convmemory.ops.tasks.remove_old_archives", 24 * 60),
    "old measures": ("convmemory.ops.tasks.prune_measures", 24 * 60),
}


def ensure_schedules() -> None:
    """Create one row for each periodic task, and delete those of earlier versions.

    Running it again, or on several machines at once, adds none.
    """
    Schedule.objects.exclude(name__in=SCHEDULES).delete()
    for name, (function, minutes) in SCHEDULES.items():
        row = {"func": function, "schedule_type": Schedule.MINUTES, "minutes": minutes, "repeats": -1}
        first, *doubles = Schedule.objects.filter(name=name).order_by("pk") or [None]
        if first is None:
            Schedule.objects.create(name=name, **row)
        else:
            Schedule.objects.filter(pk=first.pk).update(**row)
            Schedule.objects.filter(pk__in=[double.pk for double in doubles if double]).delete()


def enqueue_sweep() -> None:
    """Enqueue the sweep now, before the next minute; several workers that start at once enqueue it once."""
    with transaction.atomic():
        list(Schedule.objects.select_for_update().filter(func=SWEEP))
        enqueue(SWEEP, group="sweep")
