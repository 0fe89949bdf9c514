"""Tasks, schedules and the queue in the admin, and the figures of the dashboard.

Replaces django-q's own pages, which let staff run any function and show errors in full, although these can quote texts
of users.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import django_q.admin  # noqa: F401 (registers the models that are unregistered below)
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django_q.models import Failure, Schedule, Success

from convmemory.core.administration.lists import OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import DeletableAdmin, MetadataAdmin, confirmed_action
from convmemory.core.models import OwnerTask
from convmemory.core.queue.fair_queue import enqueue, enqueue_for, function_of, is_task
from convmemory.ops.models import Erasure, IndexSample, SweepRun
from convmemory.ops.observability.index_samples import error_kind
from convmemory.ops.privacy.task_arguments import owners_of_call

admin.site.unregister([Success, Failure, Schedule])


def retry_tasks(rows: Sequence[Failure]) -> None:
    """Enqueue failed tasks again and delete the failures.

    Rows that name no task of this program, or a task of a deleted user, are only deleted.
    """
    for row in rows:
        if function_of(row.func) is not None:
            owners = owners_of_call(row.func, row.args or (), {})
            if len(owners) == 1:
                enqueue_for(owners.pop(), row.func, *(row.args or ()), group=row.group or "")
        elif is_task(row.func):
            enqueue(row.func, *(row.args or ()), group=row.group or "")
        row.delete()


class TaskAdmin(DeletableAdmin):
    """Finished tasks, with the row ids that they were called with."""

    ordering = ("-stopped",)
    list_display: tuple[str, ...] = ("name", "func", "group", "started", "seconds", "attempt_count")
    list_filter = ("group",)
    fields: ClassVar[tuple[str, ...]] = (
        "name", "func", "group", "args", "cluster", "started", "stopped", "attempt_count"
    )  # fmt: skip
    search_help_text = "A task's number, its 32 characters."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("args", "kwargs", "result")

    def search_condition(self, term: str) -> Q:
        return Q(pk=term)

    @admin.display(description="seconds")
    def seconds(self, obj: Any) -> str:
        return f"{(obj.stopped - obj.started).total_seconds():.1f}"


@admin.register(Success)
class SuccessAdmin(TaskAdmin):
    """The last few hundred; django-q deletes older ones."""


@admin.register(Failure)
class FailureAdmin(TaskAdmin):
    """Failed tasks by the class of their error; its message stays in the worker's log."""

    list_display = ("name", "func", "group", "reason", "started", "seconds", "attempt_count")
    fields = (*TaskAdmin.fields, "reason")
    readonly_fields = ("reason",)
    actions = ("retry", "delete_chosen")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return MetadataAdmin.get_queryset(self, request).defer("args", "kwargs")

    @admin.display(description="reason")
    def reason(self, obj: Any) -> str:
        return error_kind(obj.result)

    retry = confirmed_action(
        "retry",
        permission="change_rows",
        verb="Retry",
        consequence="They go into the queue again, and out of this list.",
        apply=retry_tasks,
    )


@admin.register(Schedule)
class ScheduleAdmin(MetadataAdmin):
    """The product maintains these rows itself."""

    list_display = ("id", "name", "func", "minutes", "next_run")
    list_filter = ()
    fields = ("name", "func", "schedule_type", "minutes", "repeats", "next_run", "task")


@admin.register(OwnerTask)
class OwnerTaskAdmin(DeletableAdmin):
    """Waiting tasks, in the order of their requests; sweeps and schedules recreate deleted ones."""

    ordering = ("asked_at",)
    list_display: tuple[str, ...] = (
        "id",
        "func",
        "archive",
        "asked_at",
        "due_at",
        "leased_until",
        "slices",
        "attempts",
    )
    list_filter = (OwnerFilter, "func")
    fields = ("func", "group", "archive", "asked_at", "due_at", "leased_until", "cluster", "slices", "attempts")


@admin.register(SweepRun)
class SweepRunAdmin(MetadataAdmin):
    list_display = ("id", "deep", "started_at", "seconds", "found", "fixed")
    list_filter = ("deep", UptoFilter)
    fields = ("deep", "started_at", "seconds", "found", "fixed")


@admin.register(Erasure)
class ErasureAdmin(MetadataAdmin):
    """Users who are being erased; the row is deleted with the user."""

    list_display = ("user", "requested_at")
    list_filter = ()
    fields = ("user", "requested_at")


@admin.register(IndexSample)
class IndexSampleAdmin(MetadataAdmin):
    list_display = ("id", "taken_at", "turns", "pending", "failed", "queued")
    fields = ("taken_at", "turns", "pending", "failed", "queued", "spaces", "reasons")
