"""Imports from their owners' view: queue an upload, look one up, list them."""

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any

from django.core.files import File
from django.db import connection
from django.db.models import Count, Sum
from django.utils.translation import gettext

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.detect import AUTO, require_format
from convmemory.conversations.importers.mapping import importer_of
from convmemory.conversations.importing.models import Import, upload_place, upload_storage
from convmemory.conversations.messages.storage_quota import require_room
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound, TooLarge, TooManyAtOnce
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql
from convmemory.core.text import cut, json_storable, storable

if TYPE_CHECKING:
    from django.core.files.uploadedfile import UploadedFile

# The uploads of one person, or to one space, must not fill the disk while they wait.
MAX_UNFINISHED = 100
MAX_PATH_CHARS = 1_000
SPOOL_BYTES = 1024**2  # larger archives go to a temporary file
MAX_UNFINISHED_UPLOADS = 4  # in units of the largest upload
UNFINISHED = (Import.State.QUEUED, Import.State.RUNNING)
_TOO_MUCH = (Import.Failure.TOO_LARGE, Import.Failure.TIME, Import.Failure.MEMORY)


class ImportBroken(ConvMemoryError):
    """The import ended for a reason unrelated to the file; the message says what to do."""


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """A file in the upload folder: its name there, its original name, its size in bytes, its SHA-256."""

    file: str
    name: str
    size: int
    digest: str


def queue_import(*, caller: Caller, file: "UploadedFile[Any]", format: str = AUTO) -> Import:
    """Store an upload and its waiting row; the calling view enqueues the task.

    Raises: InvalidInput on an unknown format, TooLarge, TooManyAtOnce.
    """
    require_acceptable(file=file, format=format)
    require_capacity(caller=caller, size=file.size or 0)
    return create_import(caller=caller, stored=store_upload(file, archive_id=caller.archive_id), format=format)


def queue_folder(
    *, caller: Caller, files: "Sequence[UploadedFile[Any]]", paths: Sequence[str], format: str = AUTO
) -> Import:
    """Store the files of a folder, with their `paths` in it, as one archive, and its waiting row.

    Raises: InvalidInput on an unknown format, TooLarge, TooManyAtOnce.
    """
    size = sum(file.size or 0 for file in files)
    require_format(format)
    require_size(size)
    require_capacity(caller=caller, size=size)
    folder = storable(paths[0].partition("/")[0]) if paths and "/" in paths[0] else f"{len(files)} files"
    with SpooledTemporaryFile(max_size=SPOOL_BYTES) as packed:
        with zipfile.ZipFile(packed, "w") as archive:
            for path, file in zip(paths, files, strict=True):
                with archive.open(storable(path)[:MAX_PATH_CHARS] or "file", "w", force_zip64=True) as entry:
                    entry.writelines(file.chunks())
        stored = _stored(File(packed), name=f"{folder[-200:]}.zip", size=size, archive_id=caller.archive_id)
    return create_import(caller=caller, stored=stored, format=format)


def require_acceptable(*, file: "UploadedFile[Any]", format: str) -> None:
    """Raise InvalidInput for an unknown format, TooLarge for a file over the limit."""
    require_format(format)
    require_size(file.size or 0)


def require_size(size: int) -> None:
    """Raises: TooLarge."""
    if size > config.max_upload_mb * 1024**2:
        raise TooLarge(
            f"The file is larger than {config.max_upload_mb} MB (MAX_UPLOAD_MB): upload it in parts, or use "
            f"`{COMMAND} import_conversations` on the server."
        )


def require_capacity(*, caller: Caller, size: int) -> None:
    """Raise TooManyAtOnce if too many uploads to the archive, or of who acts to any archive, wait already; StorageFull
    if there is no room.
    """
    require_room(archive_id=caller.archive_id, size=size, turns=1)
    waiting = Import.objects.filter(archive_id=caller.archive_id, state__in=UNFINISHED)
    of_archive = waiting.aggregate(n=Count("pk"), size=Sum("size"))
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "waiting_uploads"))
        count_of_person, size_of_person = cursor.fetchone()
    room = MAX_UNFINISHED_UPLOADS * config.max_upload_mb * 1024**2
    for whose, count, waiting_size in (
        ("yours", count_of_person, size_of_person),
        ("this space" if acting.current().adds_for else "yours", of_archive["n"], of_archive["size"] or 0),
    ):
        if count >= MAX_UNFINISHED or waiting_size + size > room:
            raise TooManyAtOnce(
                f"{count} imports of {whose} have not ended yet. At most {MAX_UNFINISHED} can wait, with "
                f"{room // 1024**2} MB in all: wait until some have."
            )


def store_upload(file: "UploadedFile[Any]", *, archive_id: int) -> StoredUpload:
    """Move the upload into the upload folder; does not use the database."""
    return _stored(file, name=storable(file.name or "upload")[-255:], size=file.size or 0, archive_id=archive_id)


def _stored(file: "File[Any]", *, name: str, size: int, archive_id: int) -> StoredUpload:
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    stored_name = upload_storage().save(upload_place(archive_id=archive_id), file)
    return StoredUpload(file=stored_name, name=name, size=size, digest=digest)


def create_import(*, caller: Caller, stored: StoredUpload, format: str = AUTO) -> Import:
    """Return the new waiting row; if it cannot be created, the stored file is deleted."""
    try:
        return Import.objects.create(
            archive_id=caller.archive_id, name=stored.name, format=format, size=stored.size, digest=stored.digest,
            file=stored.file, started_by=acting.current().person_id,
        )  # fmt: skip
    except BaseException:
        upload_storage().delete(stored.file)
        raise


def queue_mapped(*, caller: Caller, import_id: int, mapping: Mapping[str, Any], is_preview: bool) -> Import:
    """Queue the kept upload of an import once more, its files of unknown formats read by the mapping.

    The calling view enqueues the task. Raises: NotFound, InvalidInput that names a field of the mapping, TooManyAtOnce.
    """
    importer_of(mapping)
    return _queue_kept(caller, import_id, mapping=json_storable(mapping), is_preview=is_preview)


def queue_as(*, caller: Caller, import_id: int, format: str) -> Import:
    """Queue the kept upload of an import once more, to be read as the format that its owner names.

    The calling view enqueues the task. Raises: NotFound, InvalidInput on an unknown format, TooManyAtOnce.
    """
    require_format(format)
    return _queue_kept(caller, import_id, format=format)


def _queue_kept(caller: Caller, import_id: int, **values: Any) -> Import:
    before = get_import(caller=caller, import_id=import_id)
    if before.kept_id is None:
        raise InvalidInput("The upload is no longer kept: upload it again.")
    require_capacity(caller=caller, size=before.size)
    same = ("name", "format", "size", "digest", "kept_id")
    values |= {"started_by": acting.current().person_id}
    return Import.objects.create(
        archive_id=caller.archive_id, **{name: getattr(before, name) for name in same} | values
    )


def get_import(*, caller: Caller, import_id: int) -> Import:
    """Return the caller's import. Raises: NotFound."""
    row = Import.objects.filter(archive_id=caller.archive_id, pk=import_id).first()
    if row is None:
        raise NotFound(f"There is no import {import_id}.")
    return row


def imports_of(*, caller: Caller, limit: int, digest: str = "") -> list[Import]:
    """Return the caller's imports, newest first; only those of the file with SHA-256 `digest` if that is given."""
    rows = Import.objects.filter(archive_id=caller.archive_id)
    if digest:
        rows = rows.filter(digest=storable(digest.lower()))
    return list(rows.order_by("-pk")[:limit])


def why_waiting(rows: Sequence[Import]) -> dict[int, str]:
    """Return the reason why each waiting import of one owner waits, by id."""
    waiting = [row for row in rows if row.state == Import.State.QUEUED]
    if not waiting:
        return {}
    running = Import.objects.filter(archive_id=waiting[0].archive_id, state=Import.State.RUNNING).first()
    if running:
        reason = gettext("It waits until your import of %(name)s has ended.") % {"name": cut(running.name, 80)}
    else:
        reason = gettext("It waits for its turn. If that takes minutes, ask who runs this server.")
    return {row.pk: reason for row in waiting}


def error_of(row: Import) -> ConvMemoryError:
    """Return the error of a failed import, for a caller that waited for it."""
    kind = TooLarge if row.failure in _TOO_MUCH else InvalidInput
    error = (kind if row.failure in (*_TOO_MUCH, Import.Failure.UNREADABLE) else ImportBroken)(row.error)
    error.details = {"id": row.pk, "state": row.state, "failure": row.failure, "report": row.report}
    return error
