"""Background tasks of the trash and of retention by age: each loads by id and calls one function."""

from typing import Any

from django.contrib.auth.models import User

from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import enqueue_for, owner_task, slice_end
from convmemory.retention import rules, trash

SWEPT = 200


def enqueue_deletion(owner_id: int) -> None:
    """Enqueue the deletion of what is due in a person's trash."""
    enqueue_for(owner_id, "convmemory.retention.tasks.delete_due", group="trash")


@owner_task
def delete_due(*, owner_id: int) -> dict[str, Any]:
    """Delete what is due in one person's trash for one slice of time."""
    owner = User.objects.filter(pk=owner_id).first()
    finished = owner is None or trash.delete_due(owner=owner, deadline=slice_end())
    return {"finished": True} if finished else {"again_in_s": 0.0}


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue the deletion of what is due in the trash of any owner; scheduled every ten minutes."""
    owners = trash.owners_with_due(limit=SWEPT)
    for owner_id in owners:
        enqueue_deletion(owner_id)
    return {"enqueued": len(owners)}


# --- retention by age -----------------------------------------------------------------------------


@owner_task
def apply_rules(*, owner_id: int) -> dict[str, Any]:
    """Put one person's conversations that rules find into the trash for one slice of time."""
    owner = User.objects.filter(pk=owner_id).first()
    finished = owner is None or rules.apply_rules(owner=owner, deadline=slice_end())
    return {"finished": True} if finished else {"again_in_s": 0.0}


@over_all_archives
def sweep_old() -> dict[str, Any]:
    """Enqueue what rules and limits find, of any owner; scheduled every ten minutes."""
    owners = rules.owners_with_old(limit=SWEPT)
    for owner_id in owners:
        enqueue_for(owner_id, "convmemory.retention.tasks.apply_rules", group="retention")
    return {"enqueued": len(owners)}
