"""Everything that an installation stores about one person, as one zip archive, also on request in the background.

One snapshot: all tables are read in one REPEATABLE READ transaction, row by row through server-side cursors, so that
memory use is constant. Credentials (passwords, hashes of keys, sessions) are left out. docs/export-format.md describes
the format.
"""

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, connection, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller
from convmemory.accounts.mail import notify
from convmemory.conversations.importers.own_export import FORMAT, FORMAT_VERSION, MANIFEST, table_file
from convmemory.core.acting import in_archive_of
from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound
from convmemory.core.files.private_files import private_folder
from convmemory.core.sql import load_sql
from convmemory.documents.models import Document
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy.backup import new_archive
from convmemory.ops.privacy.ownership import OwnedTable, owned_tables

ROWS_PER_FETCH = 200
SECRETS = re.compile(
    r"(^|_)(password|secret|api_key|key_hash|token)(_hash|_encrypted)?$|_encrypted$|_code_hashes$|^session_(key|data)$"
)
"""Names of columns that are never exported."""

ABOUT_OTHERS = {"django_admin_log": ("object_repr", "change_message")}
"""Columns, by table, that can contain data of another user: a title that an administrator has seen."""

# The reader reads these in parallel, so they are all in the order of the conversations.
ORDERS = {
    "conversations_conversation": "id",
    "conversations_message": "conversation_id, position",
    "conversations_messagesource": load_sql("convmemory.ops.privacy", "order_of_sources"),
    "conversations_turnmark": load_sql("convmemory.ops.privacy", "order_of_sources"),
    "conversations_event": "conversation_id, line_number",
}


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Rows by table, and the size of the archive in bytes."""

    rows: dict[str, int]
    size: int


def export_user(*, user: AbstractBaseUser, path: Path) -> ExportReport:
    """Write the user's archive to `path`, readable by its owner alone. It appears there when complete.

    Raises: InvalidInput if the file exists or cannot be written.
    """
    rows: dict[str, int] = {}
    with in_archive_of(user.pk), _snapshot(), new_archive(path, level=6) as archive:
        for table in sorted(owned_tables(), key=lambda table: table.name):
            columns = ", ".join(f't."{column}"' for column in exported_columns(table))
            in_order = f"ORDER BY {order}" if (order := ORDERS.get(table.name)) else ""
            statement = load_sql("convmemory.ops.privacy", "export_rows").format(
                columns=columns, table=table.name, condition=table.condition, in_order=in_order
            )
            count = 0
            with (
                archive.open(table_file(table.name), "w", force_zip64=True) as file,
                connection.chunked_cursor() as cursor,
            ):
                cursor.cursor.itersize = ROWS_PER_FETCH
                cursor.execute(statement, {"owner": user.pk})
                for (row,) in cursor:
                    file.write(row.encode() + b"\n")
                    count += 1
            rows[table.name] = count
        # Documents' files get the names that their rows contain.
        for name in Document.objects.filter(archive_id=user.pk).order_by("pk").values_list("file", flat=True):
            if document_storage().exists(name):
                archive.write(document_storage().path(name), f"files/{name}")
        archive.writestr(
            MANIFEST,
            json.dumps(
                {
                    "format": FORMAT,
                    "version": FORMAT_VERSION,
                    "username": user.get_username(),
                    "exported_at": timezone.now().isoformat(),
                    "tables": {
                        table.name: {"rows": rows[table.name], "columns": exported_columns(table)}
                        for table in owned_tables()
                    },
                },
                indent=1,
            ),
        )
    record(Action.EXPORTED, what="everything", person_id=None, about_id=user.pk)
    return ExportReport(rows=rows, size=path.stat().st_size)


def exported_columns(table: OwnedTable) -> list[str]:
    left_out = ABOUT_OTHERS.get(table.name, ())
    return [column for column in table.columns if not SECRETS.search(column) and column not in left_out]


@contextmanager
def _snapshot() -> Iterator[None]:
    nested = connection.in_atomic_block
    with transaction.atomic():
        if not nested:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


KEPT = timedelta(days=7)
MAX_KEPT = 5
WORKING = (OwnArchive.State.QUEUED, OwnArchive.State.RUNNING)
ENDED: dict[str, tuple[Promise, Promise]] = {
    OwnArchive.State.DONE: (
        _("Your archive at convmemory is complete"),
        _("The archive that you asked for %(began)s can be downloaded here for seven days:\n\n%(link)s\n"),
    ),
    OwnArchive.State.FAILED: (
        _("Your archive at convmemory has failed"),
        _("The archive that you asked for %(began)s could not be written. This page says why:\n\n%(link)s\n"),
    ),
}
"""Subject and text of the mail about an archive that has ended."""


# One archive at a time is written for each user, and at most `MAX_KEPT` are kept, each for `KEPT`. The file is stored
# in `MEDIA_ROOT`, readable by the server's user alone, and is deleted with the user.
def request_archive(*, caller: Caller) -> OwnArchive:
    """Create a row that waits for a worker, and delete the owner's failed ones; the caller enqueues it.

    Raises: InvalidInput while one is being written, or if the owner has as many as are kept.
    """
    archives = OwnArchive.objects.filter(person_id=caller.user.pk)
    if archives.exclude(state=OwnArchive.State.FAILED).count() >= MAX_KEPT:
        raise InvalidInput(f"At most {MAX_KEPT} archives are kept for you: delete one of them first.")
    try:
        with transaction.atomic():
            archives.filter(state=OwnArchive.State.FAILED).delete()
            return OwnArchive.objects.create(person_id=caller.user.pk)
    except IntegrityError:
        raise InvalidInput("Your archive is being written already: wait until it is complete.") from None


def archives_of(*, caller: Caller) -> list[OwnArchive]:
    """Return the owner's archives, newest first."""
    return list(OwnArchive.objects.filter(person_id=caller.user.pk).order_by("-pk"))


def get_archive(*, caller: Caller, own_archive_id: int) -> OwnArchive:
    """Return the owner's archive. Raises: NotFound."""
    row = OwnArchive.objects.filter(person_id=caller.user.pk, pk=own_archive_id).first()
    if row is None:
        raise NotFound(f"There is no archive {own_archive_id}.")
    return row


def write_archive(*, archive_id: int, own_archive_id: int) -> str:
    """Write the archive; return its state afterwards, "" if it was written or removed meanwhile."""
    row = (
        OwnArchive.objects.select_related("person")
        .filter(person_id=archive_id, pk=own_archive_id, state__in=WORKING)
        .first()
    )
    if row is None:
        return ""
    OwnArchive.objects.filter(pk=row.pk).update(state=OwnArchive.State.RUNNING)
    name = f"archives/{row.person_id}/{secrets.token_hex(16)}.zip"
    path = Path(document_storage().path(name))
    private_folder(path.parent)
    try:
        size = export_user(user=row.person, path=path).size
    except ConvMemoryError as error:
        return _end(row, OwnArchive.State.FAILED, error=str(error))
    state = _end(row, OwnArchive.State.DONE, file=name, size=size)
    if not state:
        path.unlink(missing_ok=True)  # the user, or the archive, was deleted meanwhile
    return state


def _end(row: OwnArchive, state: str, **values: object) -> str:
    with transaction.atomic():
        working = OwnArchive.objects.filter(pk=row.pk, state__in=WORKING)
        if not working.update(state=state, ended_at=timezone.now(), **values):
            return ""
        subject, text = ENDED[state]
        notify(row.person, began_at=row.created_at, path=reverse("data"), subject=subject, text=text)
    return state


def remove_archive(*, caller: Caller, own_archive_id: int) -> None:
    """Delete an archive before it expires. Raises: NotFound."""
    _remove(get_archive(caller=caller, own_archive_id=own_archive_id))


def remove_old() -> int:
    """Delete the expired archives; return their number."""
    old = list(OwnArchive.objects.filter(created_at__lt=timezone.now() - KEPT))
    for row in old:
        _remove(row)
    return len(old)


def _remove(row: OwnArchive) -> None:
    if row.file.name and document_storage().exists(row.file.name):
        document_storage().delete(row.file.name)
    row.delete()
