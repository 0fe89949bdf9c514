"""Background tasks of the trash and of retention by age: each loads by id and calls one function."""

from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import enqueue_for, slice_end, task
from convmemory.retention import rules, trash

SWEPT = 200


def enqueue_deletion(archive_id: int) -> None:
    """Enqueue the deletion of what is due in a person's trash."""
    enqueue_for(archive_id, "convmemory.retention.tasks.delete_due", group="trash")


@task()
def delete_due(*, archive_id: int) -> dict[str, Any]:
    """Delete what is due in one person's trash for one slice of time."""
    finished = trash.delete_due(caller=Caller.for_archive(archive_id), deadline=slice_end())
    return {"finished": True} if finished else {"again_in_s": 0.0}


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue the deletion of what is due in the trash of any owner; scheduled every ten minutes."""
    owners = trash.owners_with_due(limit=SWEPT)
    for archive_id in owners:
        enqueue_deletion(archive_id)
    return {"enqueued": len(owners)}


@task()
def apply_rules(*, archive_id: int) -> dict[str, Any]:
    """Put one person's conversations that rules find into the trash for one slice of time."""
    finished = rules.apply_rules(caller=Caller.for_archive(archive_id), deadline=slice_end())
    return {"finished": True} if finished else {"again_in_s": 0.0}


@over_all_archives
def sweep_old() -> dict[str, Any]:
    """Enqueue what rules and limits find, of any owner; scheduled every ten minutes."""
    owners = rules.owners_with_old(limit=SWEPT)
    for archive_id in owners:
        enqueue_for(archive_id, "convmemory.retention.tasks.apply_rules", group="retention")
    return {"enqueued": len(owners)}
