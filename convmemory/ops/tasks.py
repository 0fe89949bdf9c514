"""Background tasks of operations: each loads a row by id, calls one function and returns a small dict."""

from typing import Any

from django.contrib.auth.models import User

from convmemory.core.queue.fair_queue import enqueue, enqueue_for, slice_end, task, unrecorded
from convmemory.ops.doctor import alerting
from convmemory.ops.doctor.models_area import remember_models
from convmemory.ops.models import OwnArchive, SweepRun
from convmemory.ops.observability import measures
from convmemory.ops.privacy import exporting
from convmemory.ops.privacy.erasing import erase_user, unfinished
from convmemory.ops.runtime import sweeping
from search.tasks import enqueue_sources


def enqueue_erasure(user_id: int) -> None:
    """Enqueue the next part of erasing a user. The history does not keep the task, because it names the user.

    It is not a task of that user: those are deleted with the user's rows.
    """
    enqueue("convmemory.ops.tasks.erase", user_id, group="erase")


@unrecorded
def erase(user_id: int) -> dict[str, Any]:
    """Erase a user who was shut out before; a large archive continues in a further task."""
    user = User.objects.filter(pk=user_id).first()
    if user is None:
        return {"deleted": 0}
    receipt = erase_user(user=user, deadline=slice_end())
    if not receipt.finished:
        enqueue_erasure(user_id)
    return {"deleted": receipt.total}


def finish_erasures() -> dict[str, Any]:
    """Resume erasures whose worker died; scheduled every ten minutes."""
    user_ids = unfinished()
    for user_id in user_ids:
        enqueue_erasure(user_id)
    return {"enqueued": len(user_ids)}


def send_alerts() -> dict[str, Any]:
    """Examine the installation, and mail operators what is newly wrong or well again; scheduled every hour."""
    begun, ended = alerting.examine_and_tell()
    return {"found": begun, "ended": ended}


def prune_measures() -> dict[str, Any]:
    """Delete hourly counts too old for charts; scheduled daily."""
    return {"deleted": measures.prune()}


def enqueue_archive(row: OwnArchive) -> None:
    """Enqueue the writing of an archive of everything that its owner has."""
    enqueue_for(row.person_id, "convmemory.ops.tasks.write_own_archive", row.pk, group="archive")


@task(long=True)
def write_own_archive(own_archive_id: int, *, archive_id: int) -> dict[str, Any]:
    """Write one archive; if a worker dies half way, its partial file is not used, and another worker starts over."""
    return {"state": exporting.write_archive(archive_id=archive_id, own_archive_id=own_archive_id) or "gone"}


def remove_old_archives() -> dict[str, Any]:
    """Delete expired archives; scheduled daily."""
    return {"deleted": exporting.remove_old()}


def sweep() -> dict[str, Any]:
    """Repair missed and stuck work; scheduled every minute."""
    return _figures(sweeping.sweep(enqueue=enqueue_sources))


def deep_sweep() -> dict[str, Any]:
    """Repair orphaned, missing and stale rows, and note new models; scheduled every hour."""
    remember_models()
    return _figures(sweeping.deep_sweep(enqueue=enqueue_sources))


def _figures(run: SweepRun) -> dict[str, Any]:
    return {"found": run.found, "fixed": run.fixed}
