"""Backups of one group of owners: its rows by table, in the format of COPY, and the files of its owners.

Unlike a backup of the whole database it contains no statements, so that none of it can run, and it works on an external
server too. It can only be restored into its own database; the rows of other groups stay. See
docs/adr/0075-back-up-all-groups-or-one.md.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from django.utils import timezone
from psycopg import sql

from convmemory.core.errors import InvalidInput
from convmemory.core.postgres.groups import grouped_tables
from convmemory.core.postgres.layout import Layout, note_layout
from convmemory.core.sql import load_sql
from convmemory.ops.groups.links import own_link, refuse_while_in_use
from convmemory.ops.groups.schemas import choose_path, columns_of, run
from convmemory.ops.privacy import backup
from convmemory.ops.privacy.backup import CHUNK_BYTES, MANIFEST, BackupFailed, BackupReport, new_archive, paths_along

FORMAT = "convmemory-group-backup"
VERSION = 1
ROWS = "rows/"
# The lowest level: vectors hardly shrink at any, and texts already do at this one.
COMPRESSION = 1

Link = psycopg.Connection


def back_up_group(*, group: int, path: Path) -> BackupReport:
    """Write a backup of one group to `path`, readable by its owner alone. The product may run meanwhile.

    Raises: InvalidInput if the group does not exist, or the file exists or cannot be written.
    """
    with own_link() as link, new_archive(path, level=COMPRESSION) as archive, link.transaction():
        run(link, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        _work_in(link, note_layout(link), group)
        tables = {table: _write_rows(link, archive, table) for table in grouped_tables()}
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "created_at": timezone.now().isoformat(),
            "group": group,
            "migrations": _migrations(link),
            "owners": _owners(link, group),
            "tables": tables,
            "files": backup.add_files(archive, _files(link)),
        }
        archive.writestr(MANIFEST, json.dumps(facts, indent=1))
    return _report(path, facts)


def is_group_backup(path: Path) -> bool:
    """Return whether the file's manifest says that it is one."""
    try:
        return bool(_manifest(path)["format"] == FORMAT)
    except (OSError, zipfile.BadZipFile, EOFError, KeyError, ValueError, TypeError, NotImplementedError):
        return False


def restore_group(*, path: Path) -> BackupReport:
    """Replace the rows of the owners in a backup by those of the backup, in one transaction.

    Raises: InvalidInput if the backup is damaged, if the database has other migrations, owners or groups than it had,
    or is in use; BackupFailed.
    """
    facts = _verified(path)
    with own_link() as link:
        refuse_while_in_use(link)
        with link.transaction():
            _work_in(link, note_layout(link), facts["group"])
            # Refuse rows that would not fit into the tables, or whose owners left the group.
            tables = {table: columns_of(link, table).as_string(link) for table in grouped_tables()}
            said = {table: values["columns"] for table, values in facts["tables"].items()}
            if tables != said or _migrations(link) != facts["migrations"]:
                raise InvalidInput(
                    "The backup is of another version: a group is taken back only by the version that backed it up. "
                    "Nothing was changed."
                )
            if gone := [
                name for owner_id, name in facts["owners"] if [owner_id, name] not in _owners(link, facts["group"])
            ]:
                raise InvalidInput(
                    f"{gone[0]} does not belong to group {facts['group']} any more: move them back first "
                    "(`manage.py move_owner`); who was erased cannot be taken back. Nothing was changed."
                )
            before = set(_files(link))
            new = _replace(link, path, facts)
            after = set(_files(link))
    backup.remove_files((before | new) - after)
    return _report(path, facts)


def _work_in(link: Link, found: Layout, group: int) -> None:
    if group not in found.groups:
        raise InvalidInput(f"There is no group {group}: `manage.py groups` lists them.")
    choose_path(link, found.path_to(group))


def _write_rows(link: Link, archive: zipfile.ZipFile, table: str) -> dict[str, Any]:
    """Add the rows of a table; return their number, their columns and their digest."""
    columns, digest = columns_of(link, table), hashlib.sha256()
    copying = _statement("copy_rows_out", table, columns=columns)
    with archive.open(ROWS + table, "w", force_zip64=True) as file, link.cursor() as cursor:
        with cursor.copy(copying) as rows:
            for data in rows:
                digest.update(data)
                file.write(data)
        return {"rows": cursor.rowcount, "columns": columns.as_string(link), "sha256": digest.hexdigest()}


def _replace(link: Link, path: Path, facts: dict[str, Any]) -> set[str]:
    """Replace the owners' rows and files by those of the backup; return the new files."""
    owners = [owner_id for owner_id, _ in facts["owners"]]
    run(link, "SET CONSTRAINTS ALL DEFERRED")
    for table in facts["tables"]:
        link.execute(_statement("delete_owners", table), [owners])
    with zipfile.ZipFile(path) as archive:
        for table, said in facts["tables"].items():
            statement = _statement("copy_rows_in", table, columns=columns_of(link, table))
            with link.cursor() as cursor:
                with cursor.copy(statement) as rows:
                    for data in _chunks(archive, table):
                        rows.write(data)
                copied = cursor.rowcount
            found = link.execute(_statement("count_of_owners", table), [owners]).fetchone()
            if found is None or not found[0] == copied == said["rows"]:  # no row of another owner
                raise BackupFailed(f"{table} does not hold the rows of the backup. Nothing was changed.")
        try:
            run(link, "SET CONSTRAINTS ALL IMMEDIATE")
        except psycopg.IntegrityError as error:
            reason = str(error).partition("\n")[0]
            raise BackupFailed(f"The rows name what is gone by now: {reason}. Nothing was changed.") from error
        return set(backup.restore_files(archive))


def _statement(name: str, table: str, **parts: sql.Composable) -> sql.Composed:
    return sql.SQL(load_sql("convmemory.ops.privacy", name)).format(table=sql.Identifier(table), **parts)


def _files(link: Link) -> list[str]:
    """Return the files of the group on the search path."""
    return paths_along(link, grouped_tables())


# --- the manifest -----------------------------------------------------------------


def _verified(path: Path) -> dict[str, Any]:
    """Return the manifest of a complete backup. Raises: InvalidInput."""
    try:
        facts = _manifest(path)
        if facts["version"] != VERSION:
            raise InvalidInput(f"{path} is no backup that this version reads.")
        with zipfile.ZipFile(path) as archive:
            damaged = [table for table, said in facts["tables"].items() if _digest(archive, table) != said["sha256"]]
            backup.verify_files(archive)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, NotImplementedError) as error:
        raise InvalidInput(f"{path} is damaged or no backup: {error}. Nothing was changed.") from error
    if damaged:
        raise InvalidInput(f"{path} is damaged: {damaged[0]} is not as it was written. Nothing was changed.")
    return facts


def _manifest(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        facts: dict[str, Any] = json.loads(archive.read(MANIFEST))
        return facts


def _owners(link: Link, group: int) -> list[list[Any]]:
    """Ids and names of those who belong to the group."""
    return [list(row) for row in link.execute(load_sql("convmemory.ops.privacy", "owners_of_group").encode(), [group])]


def _migrations(link: Link) -> list[list[str]]:
    """Of the group, whose tables are looked at."""
    return sorted(list(row) for row in link.execute(load_sql("convmemory.ops.privacy", "applied_migrations").encode()))


def _chunks(archive: zipfile.ZipFile, table: str) -> Iterator[bytes]:
    with archive.open(ROWS + table) as file:
        while data := file.read(CHUNK_BYTES):
            yield data


def _digest(archive: zipfile.ZipFile, table: str) -> str:
    digest = hashlib.sha256()
    for data in _chunks(archive, table):
        digest.update(data)
    return digest.hexdigest()


def _report(path: Path, facts: dict[str, Any]) -> BackupReport:
    rows = sum(values["rows"] for values in facts["tables"].values())
    return BackupReport(path.stat().st_size, rows, facts["files"])
