"""Exports all data that an installation stores about one user, as one zip archive that `import_conversations` reads.

One snapshot: all tables are read in one REPEATABLE READ transaction, row by row through server-side cursors, so that
memory use is constant. Credentials (passwords, hashes of keys, sessions) are left out. docs/export-format.md describes
the format.
"""

import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.utils import timezone

from convmemory.conversations.importers.own_export import FORMAT, MANIFEST, VERSION, table_file
from convmemory.core.acting import beside
from convmemory.core.sql import load_sql
from convmemory.documents.models import Document
from convmemory.documents.storage import document_storage
from convmemory.ops.privacy.archives import new_archive
from convmemory.ops.privacy.ownership import OwnedTable, owned_tables

ROWS_PER_FETCH = 200
SECRETS = re.compile(r"(^|_)(password|secret|api_key|key_hash|token)(_hash|_encrypted)?$|_encrypted$")
"""Names of columns that are never exported."""

ABOUT_OTHERS = {"django_admin_log": ("object_repr", "change_message")}
"""Columns, by table, that can contain data of another user: a title that an administrator has seen."""

# The reader reads these in parallel, so they are all in the order of the conversations.
ORDERS = {
    "conversations_conversation": "id",
    "conversations_message": "conversation_id, position",
    "conversations_messagesource": load_sql("convmemory.ops.privacy", "order_of_sources"),
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
    with beside(user.pk), _snapshot(), new_archive(path, level=6) as archive:
        for table in sorted(owned_tables(), key=lambda table: table.name):
            rows[table.name] = _write_table(archive, table, user.pk)
        # Documents' files get the names that their rows contain.
        for place in Document.objects.filter(owner_id=user.pk).order_by("pk").values_list("file", flat=True):
            if document_storage().exists(place):
                archive.write(document_storage().path(place), f"files/{place}")
        archive.writestr(MANIFEST, json.dumps(_manifest(user, rows), indent=1))
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


def _write_table(archive: zipfile.ZipFile, table: OwnedTable, owner_id: int) -> int:
    columns = ", ".join(f't."{column}"' for column in exported_columns(table))
    in_order = f"ORDER BY {order}" if (order := ORDERS.get(table.name)) else ""
    statement = load_sql("convmemory.ops.privacy", "export_rows").format(
        columns=columns, table=table.name, condition=table.condition, in_order=in_order
    )
    count = 0
    with archive.open(table_file(table.name), "w", force_zip64=True) as file, connection.chunked_cursor() as cursor:
        cursor.cursor.itersize = ROWS_PER_FETCH
        cursor.execute(statement, {"owner": owner_id})
        for (row,) in cursor:
            file.write(row.encode() + b"\n")
            count += 1
    return count


def _manifest(user: AbstractBaseUser, rows: dict[str, int]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "username": user.get_username(),
        "exported_at": timezone.now().isoformat(),
        "tables": {
            table.name: {"rows": rows[table.name], "columns": exported_columns(table)} for table in owned_tables()
        },
    }
