"""The states of imports as workers change them, and the child process that works on one.

A claim is valid until its lease expires, and is renewed while the import runs. Each person has at most one import
running. The fair queue, of which imports are long tasks, limits how many run at once.
"""

import os
import uuid
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.mail import notify
from convmemory.accounts.spaces import get_membership
from convmemory.conversations.importing.models import Import, upload_storage
from convmemory.conversations.importing.runner import ImportReport
from convmemory.core.acting import acting_for
from convmemory.core.config import config
from convmemory.core.errors import NotFound
from convmemory.core.files.work_folders import work_folder
from convmemory.core.processes import child_process
from convmemory.core.processes.child_process import ChildLimits, Ending
from convmemory.core.program import COMMAND
from convmemory.core.text import json_storable, storable

LEASE = timedelta(seconds=60)  # the watching worker renews it every 5 s
MAX_ATTEMPTS = 5
KEPT_FOR = timedelta(days=30)  # after the end; an import can be undone until then

State = Import.State
ENDED: dict[str, tuple[Promise, Promise]] = {
    State.DONE: (
        _("Your import at convmemory is finished"),
        _("The import that began %(began)s is finished. This page shows what it brought in:\n\n%(link)s\n"),
    ),
    State.FAILED: (
        _("Your import at convmemory has failed"),
        _("The import that began %(began)s has failed. This page says why, and what to do:\n\n%(link)s\n"),
    ),
}
"""Subject and text of the mail about an import that has ended."""


def claim(*, archive_id: int, import_id: int) -> Import | None:
    """Return the owner's import in state running; None if it was not waiting, or if the owner has another
    one running.
    """
    now, run = timezone.now(), uuid.uuid4()
    imports = Import.objects.filter(archive_id=archive_id)
    if imports.filter(state=State.RUNNING).exists():
        return None
    with suppress(IntegrityError), transaction.atomic():  # another worker has just claimed one
        imports.filter(pk=import_id, state=State.QUEUED).update(
            state=State.RUNNING, run=run, lease_until=now + LEASE, started_at=now, attempts=F("attempts") + 1,
            files_read=0, messages_read=0,
        )  # fmt: skip
    return imports.filter(run=run).first()


def claimed(import_id: int, run: uuid.UUID) -> Import | None:
    """Return the import, if this claim on it is still valid."""
    rows = Import.objects.select_related("kept")
    return rows.filter(pk=import_id, run=run, state=State.RUNNING).first()


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
        if report.ignored:
            reasons.append(f"files that are no transcripts: {report.ignored_by_ending}")
        heading = "Nothing is imported yet" if row.is_preview else "Nothing could be imported"
        error = storable("; ".join([heading, *reasons[:3]]))[:2_000]
        _end(row, state=State.FAILED, failure=Import.Failure.UNREADABLE, error=error, **values)


def fail(row: Import, failure: Import.Failure, error: str) -> bool:
    """End the import without a report; return False if the claim is lost."""
    return _end(row, state=State.FAILED, failure=failure, error=storable(error)[:2_000])


def give_back(row: Import) -> bool:
    """Queue the import again for another worker, at most `MAX_ATTEMPTS` times; return True if this ends it."""
    if row.attempts >= MAX_ATTEMPTS:
        error = f"The import was interrupted {row.attempts} times: upload it in parts, or ask who runs the server."
        return fail(row, Import.Failure.INTERRUPTED, error)
    _own(row).update(state=State.QUEUED, run=None, lease_until=None)
    return False


def release_lost() -> int:
    """Release imports whose worker let its lease expire; returns how many."""
    lost = list(Import.objects.filter(state=State.RUNNING, lease_until__lt=timezone.now()))
    for row in lost:
        if give_back(row):
            _tell_owner(row.pk)
    return len(lost)


def next_imports(*, archive_id: int | None = None) -> list[tuple[int, int, int | None]]:
    """Return owner and id of each owner's oldest waiting import, without owners who have one running, and who sent it
    to a space.

    With `archive_id`, only that owner's.
    """
    imports = Import.objects.all() if archive_id is None else Import.objects.filter(archive_id=archive_id)
    running = imports.filter(state=State.RUNNING).values("archive_id")
    queued = imports.filter(state=State.QUEUED).exclude(archive_id__in=running)
    oldest = queued.order_by("archive_id", "pk").distinct("archive_id")
    return list(oldest.values_list("archive_id", "pk", "started_by"))


def tidy() -> int:
    """Delete rows of imports that ended long ago; returns how many."""
    _, by_model = Import.objects.filter(ended_at__lt=timezone.now() - KEPT_FOR).delete()
    return by_model.get(Import._meta.label, 0)


def _own(row: Import) -> QuerySet[Import]:
    """Return the row, if this run's claim on it is still valid."""
    return Import.objects.filter(pk=row.pk, run=row.run, state=State.RUNNING)


def _end(row: Import, **values: Any) -> bool:
    if not _own(row).update(**values, run=None, lease_until=None, file="", ended_at=timezone.now()):
        return False
    # The row first: the sweep deletes a file that no row names, but a row without its file would fail.
    _delete_upload(row)
    return True


def _tell_owner(import_id: int) -> None:
    """Store mail about an import that has just ended; in the worker, because the confined child can read no texts.

    It is for the owner, or in a space for the member who sent the import, if they still are one.
    """
    row = Import.objects.filter(pk=import_id, state__in=ENDED, is_preview=False).first()
    if row is None:
        return
    person = User.objects.filter(pk=row.started_by or row.archive_id).first()
    if person is None:
        return
    subject, text = ENDED[row.state]
    path = reverse("one-import", args=[row.pk])
    with acting_for(person.pk), suppress(NotFound):
        if person.pk != row.archive_id:
            get_membership(person=person, space_id=row.archive_id)
        notify(person, began_at=row.created_at, path=path, subject=subject, text=text)


def _delete_upload(row: Import) -> None:
    if row.file:
        upload_storage().delete(str(row.file.name))


def run_import(*, archive_id: int, import_id: int) -> str | None:
    """Import a waiting upload of the owner; returns its state afterwards. None if it cannot be claimed now."""
    row = claim(archive_id=archive_id, import_id=import_id)
    if row is None:
        return None
    with work_folder("import", archive_id=row.archive_id, claim=row.pk) as folder:
        ending = run_child(row, str(folder))
    what_to_do = f"What was read is stored. Upload it in parts, or use `{COMMAND} import_conversations` on the server."
    if ending is Ending.OUT_OF_TIME:
        limit = f"{config.import_timeout_s} s (IMPORT_TIMEOUT_S)"
        fail(row, Import.Failure.TIME, f"The import took longer than {limit}. {what_to_do}")
    elif ending is Ending.OUT_OF_MEMORY:
        limit = f"{config.import_memory_mb} MB (IMPORT_MEMORY_MB)"
        fail(row, Import.Failure.MEMORY, f"The import needs more memory than {limit}. {what_to_do}")
    elif ending in (Ending.CRASHED, Ending.DISK_FULL):
        give_back(row)
    state = str(Import.objects.filter(pk=import_id).values_list("state", flat=True).first() or "gone")
    if state not in (Import.State.QUEUED, Import.State.RUNNING):
        _delete_upload(row)  # a killed child has not deleted it
        _tell_owner(import_id)
    return state


def run_child(row: Import, folder: str) -> Ending:
    """Run a separate process on the claimed import until it ends or is ended."""
    return child_process.run_forked_child(
        "convmemory.conversations.importing.child",
        [str(row.pk), str(row.run), folder, str(row.archive_id)],
        limits=ChildLimits(memory_mb=config.import_memory_mb, timeout_s=config.import_timeout_s),
        environment=os.environ | {"DJANGO_SETTINGS_MODULE": "convmemory.settings"},
        is_wanted=lambda: renew(row),
    )
