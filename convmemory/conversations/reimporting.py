"""Imports kept uploads again, oldest first: messages that a repaired importer reads better are updated, none
duplicated.
"""

from collections.abc import Callable
from functools import partial

from django.contrib.auth.models import AbstractBaseUser, User

from convmemory.conversations.command_imports import import_undoably
from convmemory.conversations.import_models import KeptUpload
from convmemory.conversations.import_runner import ImportReport, OnStored, import_upload
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.ingest import SyncResult
from convmemory.conversations.kept_uploads import opened, record_kept_conversation
from convmemory.core.errors import ConvMemoryError
from convmemory.core.work_folders import work_folder

OnReport = Callable[[KeptUpload, ImportReport], None]


def owners_of_uploads() -> list[User]:
    """Return the owners of kept uploads, ordered by id."""
    return list(User.objects.filter(pk__in=KeptUpload.objects.values("owner")).order_by("pk"))


def reimport(*, owner: AbstractBaseUser, on_report: OnReport) -> None:
    """Import the owner's kept uploads again; one that cannot be read is reported, and the others are still imported."""
    for upload in KeptUpload.objects.filter(owner_id=owner.pk, stored_size__gt=0).order_by("pk"):
        try:
            report = import_undoably(
                owner=owner,
                name=upload.name,
                format=upload.format,
                run=partial(_read, owner, upload),
            )
        except ConvMemoryError as error:
            report = ImportReport(files=[FileReport(path=upload.name, errors=[str(error)])])
        on_report(upload, report)


def _read(owner: AbstractBaseUser, upload: KeptUpload, on_stored: OnStored) -> ImportReport:
    def note(file: FileReport, result: SyncResult) -> None:
        on_stored(file, result)
        record_kept_conversation(upload, result)

    with work_folder("import", owner_id=owner.pk) as folder, opened(upload) as file:
        return import_upload(
            owner=owner, file=file, name=upload.name, format=upload.format, folder=folder, on_stored=note
        )
