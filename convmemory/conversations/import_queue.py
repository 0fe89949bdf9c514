"""The states of imports as workers change them: claimed, running, ended, lost.

A claim is valid until its lease expires, and is renewed while the import runs. Each person has at most one import
running. The fair queue, of which imports are long tasks, limits how many run at once.
"""

import uuid
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from convmemory.conversations.import_models import Import
from convmemory.conversations.import_runner import ImportReport
from convmemory.conversations.import_storage import upload_storage
from convmemory.core.acting import beside, in_group
from convmemory.core.groups import every_group
from convmemory.core.text import json_storable, storable

LEASE = timedelta(seconds=60)  # the watching worker renews it every 5 s
MAX_ATTEMPTS = 5
KEPT_FOR = timedelta(days=30)  # after the end; an import can be undone until then

State = Import.State


def claim(*, owner_id: int, import_id: int) -> Import | None:
    """Return the owner's import in state running; None if it was not waiting, or if the owner has another
    one running.
    """
    now, run = timezone.now(), uuid.uuid4()
    own = Import.objects.filter(owner_id=owner_id)
    if own.filter(state=State.RUNNING).exists():
        return None
    with suppress(IntegrityError), transaction.atomic():  # another worker has just claimed one
        own.filter(pk=import_id, state=State.QUEUED).update(
            state=State.RUNNING, run=run, lease_until=now + LEASE, started_at=now, attempts=F("attempts") + 1,
            files_read=0, messages_read=0,
        )  # fmt: skip
    return own.select_related("owner").filter(run=run).first()


def claimed(import_id: int, run: uuid.UUID) -> Import | None:
    """Return the import, if this claim on it is still valid."""
    return Import.objects.select_related("owner").filter(pk=import_id, run=run, state=State.RUNNING).first()


def renew(row: Import) -> bool:
    """Prolong the claim; False if it is lost."""
    return bool(_own(row).update(lease_until=timezone.now() + LEASE))


def store_progress(row: Import, report: ImportReport) -> bool:
    """Store the counts so far; False if the claim is lost."""
    return bool(_own(row).update(files_read=len(report.files), messages_read=report.messages_read))


def finish(row: Import, report: ImportReport) -> None:
    """End the import with its report; an import that could read nothing has failed."""
    stored = json_storable(report.to_stored_json())
    values = {"report": stored, "files_read": len(report.files), "messages_read": report.messages_read}
    if report.recognised:
        _end(row, state=State.DONE, **values)
    else:
        reasons = [f"{file.path}: {error}" for file in report.files for error in file.errors[:1]]
        reasons += [f"{issue.place}: {issue.reason}" for file in report.files for issue in file.issues[:1]]
        error = storable("; ".join(["Nothing could be imported", *reasons[:3]]))[:2_000]
        _end(row, state=State.FAILED, failure=Import.Failure.UNREADABLE, error=error, **values)


def fail(row: Import, failure: Import.Failure, error: str) -> None:
    """End the import without a report."""
    _end(row, state=State.FAILED, failure=failure, error=storable(error)[:2_000])


def give_back(row: Import) -> None:
    """Queue the import again for another worker, at most `MAX_ATTEMPTS` times."""
    if row.attempts >= MAX_ATTEMPTS:
        error = f"The import was interrupted {row.attempts} times: upload it in parts, or ask who runs the server."
        fail(row, Import.Failure.INTERRUPTED, error)
    else:
        _own(row).update(state=State.QUEUED, run=None, lease_until=None)


def release_lost() -> int:
    """Release imports whose worker let its lease expire; returns how many."""
    lost = list(Import.objects.filter(state=State.RUNNING, lease_until__lt=timezone.now()))
    for row in lost:
        with beside(row.owner_id):
            give_back(row)
    return len(lost)


def next_imports(*, owner_id: int | None = None) -> list[tuple[int, int]]:
    """Return owner and id of each owner's oldest waiting import, without owners who have one running.

    With `owner_id`, only that owner's.
    """
    imports = Import.objects.all() if owner_id is None else Import.objects.filter(owner_id=owner_id)
    running = imports.filter(state=State.RUNNING).values("owner_id")
    queued = imports.filter(state=State.QUEUED).exclude(owner_id__in=running)
    return list(queued.order_by("owner_id", "pk").distinct("owner_id").values_list("owner_id", "pk"))


def tidy() -> int:
    """Delete rows of imports that ended long ago; returns how many."""
    dropped = 0
    for group in every_group():
        with in_group(group):
            _, by_model = Import.objects.filter(ended_at__lt=timezone.now() - KEPT_FOR).delete()
        dropped += by_model.get(Import._meta.label, 0)
    return dropped


def _own(row: Import) -> QuerySet[Import]:
    """Return the row, if this run's claim on it is still valid."""
    return Import.objects.filter(pk=row.pk, run=row.run, state=State.RUNNING)


def _end(row: Import, **values: Any) -> None:
    if _own(row).update(**values, run=None, lease_until=None, file="", ended_at=timezone.now()):
        # The row first: the sweep deletes a file that no row names, but a row without its file would fail.
        upload_storage().delete(str(row.file.name))
