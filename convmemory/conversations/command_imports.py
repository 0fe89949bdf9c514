"""Imports started by a command, listed and undone like uploads.

The row is created at the start as an interrupted import, so that it can be undone however the command ends.
"""

from collections.abc import Callable
from functools import partial

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from convmemory.conversations.import_links import record_conversation
from convmemory.conversations.import_models import Import, ImportedConversation
from convmemory.conversations.import_runner import ImportReport, OnStored
from convmemory.conversations.importers.detect import AUTO
from convmemory.core.text import json_storable, storable

INTERRUPTED = "The command was interrupted: what it had read until then is stored. Run it again, or undo this."


def import_undoably(
    *, owner: AbstractBaseUser, name: str, run: Callable[[OnStored], ImportReport], format: str = AUTO
) -> ImportReport:
    """Run a command's import, and list it among the owner's imports for Undo if it stored anything."""
    row = Import.objects.create(
        owner_id=owner.pk, name=storable(name)[:255], format=format, size=0, state=Import.State.FAILED,
        failure=Import.Failure.INTERRUPTED, error=INTERRUPTED, started_at=timezone.now(), ended_at=timezone.now(),
    )  # fmt: skip
    report = run(partial(record_conversation, row))
    if ImportedConversation.objects.filter(owner_id=owner.pk, import_job=row).exists():
        Import.objects.filter(pk=row.pk, state=Import.State.FAILED).update(
            state=Import.State.DONE, failure="", error="", ended_at=timezone.now(), files_read=len(report.files),
            messages_read=report.messages_read, report=json_storable(report.to_stored_json()),
        )  # fmt: skip
    else:
        row.delete()
    return report
