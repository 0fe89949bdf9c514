"""Lists the conversations that `watch` imports as one import per day, which can be undone like any other.

Its state is always ended, so that it can be undone while the watch continues; later conversations go to a new import.
"""

from dataclasses import replace

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from convmemory.conversations.import_links import record_conversation
from convmemory.conversations.import_models import Import
from convmemory.conversations.import_runner import ImportReport
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import AUTO
from convmemory.conversations.ingest import SyncResult
from convmemory.core.text import json_storable


class WatchedImports:
    """The imports of one watch of one owner, one of which is open."""

    def __init__(self, owner: AbstractBaseUser) -> None:
        self._owner_id = owner.pk
        self._number = 0
        self._files: dict[str, FileReport] = {}

    def on_stored(self, file: FileReport, result: SyncResult) -> None:
        """Record the messages added to a conversation, if any. Runs in the transaction that stores them."""
        if result.created or result.added or result.updated:
            record_conversation(self._open(), file, result)

    def add(self, report: ImportReport) -> None:
        """Add the outcome of one sync, if it imported anything, to the report of the open import."""
        brought = [file for file in report.files if file.added or file.updated or file.errors]
        if not (self._number and brought):
            return
        for file in brought:
            earlier = self._files.get(file.path)
            self._files[file.path] = joined(earlier, file) if earlier else file
        whole = ImportReport(list(self._files.values()), messages_read=sum(f.messages for f in self._files.values()))
        Import.objects.filter(pk=self._number, owner_id=self._owner_id, state=Import.State.DONE).update(
            ended_at=timezone.now(), files_read=len(whole.files), messages_read=whole.messages_read,
            report=json_storable(whole.to_stored_json()),
        )  # fmt: skip

    def _open(self) -> Import:
        """Return today's import, locked, so that its undo cannot begin before this transaction has ended."""
        now = timezone.now()
        rows = Import.objects.select_for_update().filter(pk=self._number, owner_id=self._owner_id)
        row = rows.filter(state=Import.State.DONE).first()
        today = timezone.localdate(now)
        if row is None or timezone.localdate(row.created_at) != today:
            row = Import.objects.create(
                owner_id=self._owner_id, name=f"watch of {today}", format=AUTO, size=0, state=Import.State.DONE,
                started_at=now, ended_at=now,
            )  # fmt: skip
            self._number, self._files = row.pk, {}
        return row


def joined(earlier: FileReport, later: FileReport) -> FileReport:
    """Return the combined outcome of two imports of one file.

    The later one read it in full, including messages that the earlier one added.
    """
    return replace(
        later,
        added=earlier.added + later.added,
        updated=earlier.updated + later.updated,
        unchanged=max(0, later.unchanged - earlier.added - earlier.updated),
        events=earlier.events + later.events,
    )
