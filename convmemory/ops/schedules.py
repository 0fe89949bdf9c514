"""The periodic tasks, as rows that django-q reads."""

from django_q.models import Schedule
from django_q.tasks import async_task

SWEEP = "search.tasks.sweep"
EVERY_MINUTES = 1


def ensure_schedules() -> None:
    """One row for each periodic task; running it again, or on several machines at once, adds none."""
    row = {"func": SWEEP, "schedule_type": Schedule.MINUTES, "minutes": EVERY_MINUTES, "repeats": -1}
    first, *doubles = Schedule.objects.filter(name="sweep").order_by("pk") or [None]
    if first is None:
        Schedule.objects.create(name="sweep", **row)
    else:
        Schedule.objects.filter(pk=first.pk).update(**row)
        Schedule.objects.filter(pk__in=[double.pk for double in doubles if double]).delete()


def enqueue_sweep() -> None:
    """Looks for missed work now, not at the next minute."""
    async_task(SWEEP, group="sweep")
