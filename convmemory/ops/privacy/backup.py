"""Backups of the embedded database and of its files: one file, which `verify` checks before a restore.

A backup is a zip file with `dump.pgc` (the output of pg_dump, streamed), `files/` (`file_backup.py`), and
`manifest.json` with the dump's checksum and the number of rows of each table in the same snapshot. `restoring.py`
restores it.
"""

import contextlib
import hashlib
import json
import subprocess
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone
from psycopg import sql

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.postgres import programs
from convmemory.core.postgres.layout import Layout, note_layout
from convmemory.core.sql import load_sql
from convmemory.ops.groups.schemas import choose_path
from convmemory.ops.privacy import file_backup
from convmemory.ops.privacy.archives import new_archive

FORMAT = "convmemory-backup"
VERSION = 1
DUMP, MANIFEST = "dump.pgc", "manifest.json"
CHUNK_BYTES = 1024 * 1024
WHAT_TO_DUMP = ("--format=custom", "--no-owner", "--no-privileges", "--no-policies")
"""Options of pg_dump; rights and policies are created again after a restore."""


class BackupFailed(ConvMemoryError):
    """A PostgreSQL program failed or its output is incomplete; the message gives the reason. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """Bytes of the backup, rows in all tables, files of documents."""

    size: int
    rows: int
    files: int = 0


def back_up(*, path: Path) -> BackupReport:
    """Write a backup to `path`, readable by its owner alone; it appears when complete.

    The product may run meanwhile. Raises: InvalidInput if the file exists or the database is not the embedded one,
    BackupFailed.
    """
    target = embedded_target()
    with new_archive(path) as archive, _snapshot(target) as (snapshot, facts):
        with archive.open(DUMP, "w", force_zip64=True) as file:
            facts["dump"] = _dump(target, snapshot, file)
        facts["files"] = file_backup.add_files(archive, facts.pop("places"))
        archive.writestr(MANIFEST, json.dumps(facts, indent=1))
    return BackupReport(path.stat().st_size, sum(facts["rows"].values()), facts["files"])


def verify(path: Path) -> dict[str, Any]:
    """Return the manifest of a complete backup that this program can read. Raises: InvalidInput."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
                raise InvalidInput(f"{path} is no backup that this version reads.")
            with archive.open(DUMP) as file:
                digest = _digest(file)
            file_backup.verify_files(archive)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, NotImplementedError) as error:
        raise InvalidInput(f"{path} is damaged or no backup: {error}. Nothing was changed.") from error
    if digest != manifest["dump"]["sha256"]:
        raise InvalidInput(f"{path} is damaged: its checksum is not the one it was written with. Nothing was changed.")
    unknown = {tuple(migration) for migration in manifest["migrations"]} - set(known_migrations())
    if unknown:
        raise InvalidInput(
            f"{path} is of a newer version (with the migration {'.'.join(min(unknown))}): update convmemory first."
        )
    return manifest


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def embedded_target() -> dict[str, Any]:
    """Return how to connect to the embedded database. Raises: InvalidInput if it is another one."""
    if not connection.settings_dict.get("EMBEDDED_PATH"):
        raise InvalidInput(
            "DATABASE_URL names a server of your own: back it up with its own pg_dump, which knows its version, "
            "and the folder MEDIA_ROOT, where the files of documents lie, with it."
        )
    connection.ensure_connection()  # with the log-in of this process
    params = connection.get_connection_params()
    return {name: params[name] for name in ("host", "port", "user", "dbname") if name in params}


@contextlib.contextmanager
def _snapshot(target: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a snapshot that pg_dump also reads, and the facts about it."""
    with psycopg.connect(**target) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.read_only = True
        snapshot = _value(reader, load_sql("convmemory.ops.privacy", "export_snapshot"))
        yield (
            str(snapshot),
            {
                "format": FORMAT,
                "version": VERSION,
                "created_at": timezone.now().isoformat(),
                "postgres": _value(reader, "SHOW server_version"),
                "vector": _value(reader, load_sql("convmemory.ops.privacy", "vector_version")),
                "migrations": _rows(reader, load_sql("convmemory.ops.privacy", "applied_migrations")),
                "rows": count_rows(reader),
                "places": stored_paths(reader),
            },
        )


def _value(reader: psycopg.Connection, statement: str) -> Any:
    row = reader.execute(sql.SQL(statement)).fetchone()
    return row[0] if row else None


def _rows(reader: psycopg.Connection, statement: str) -> list[tuple[Any, ...]]:
    return reader.execute(sql.SQL(statement)).fetchall()


def stored_paths(reader: psycopg.Connection) -> list[str]:
    """Return the paths of documents' files and kept uploads; a database of an older version may have neither."""
    found = note_layout(reader)
    tables = {name for _, name in _tables(reader, found)}
    if found.groups:
        choose_path(reader, found.path_over_all)
    return paths_along(reader, tables)


def paths_along(reader: psycopg.Connection, tables: Collection[str]) -> list[str]:
    """Return the paths of the files that these tables name, read along the reader's search path."""
    statements = [name for table, name in file_backup.STATEMENTS.items() if table in tables]
    return [place for name in statements for (place,) in _rows(reader, load_sql("convmemory.ops.privacy", name))]


def count_rows(reader: psycopg.Connection) -> dict[str, int]:
    """Return the number of rows of each table in a backup; a group's table is named with its schema."""
    found = note_layout(reader)
    counting = sql.SQL(load_sql("convmemory.ops", "count_all"))
    counts = {}
    for schema, name in _tables(reader, found):
        row = reader.execute(counting.format(sql.Identifier(schema, name))).fetchone()
        counts[name if schema == found.home else f"{schema}.{name}"] = int(row[0]) if row else 0
    return counts


def _tables(reader: psycopg.Connection, found: Layout) -> list[tuple[str, str]]:
    """Schemas and names of the tables that hold rows."""
    return reader.execute(load_sql("convmemory.ops.privacy", "backed_up_tables").encode(), [found.schemas]).fetchall()


def program(name: str, target: Mapping[str, Any]) -> list[str]:
    """Return the command line of a PostgreSQL program that connects to the database."""
    address = ["--host", str(target["host"]), "--port", str(target["port"]), "--username", str(target["user"])]
    return [str(programs.binary(name)), *address, "--no-password"]


def _dump(target: Mapping[str, Any], snapshot: str, file: IO[bytes]) -> dict[str, Any]:
    command = [*program("pg_dump", target), *WHAT_TO_DUMP, f"--snapshot={snapshot}"]
    digest, size = hashlib.sha256(), 0
    with running([*command, str(target["dbname"])], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while chunk := process.stdout.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    return {"sha256": digest.hexdigest(), "size": size}


@contextlib.contextmanager
def running(command: list[str], **pipes: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a PostgreSQL program. Raises: BackupFailed with the end of its output if it fails."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, **pipes) as process:  # noqa: S603
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        assert process.stderr is not None
        message = process.stderr.read().decode("utf-8", "replace").strip()
        if process.wait():
            raise BackupFailed(f"{Path(command[0]).name} failed: {message[-1_000:]}. Nothing was changed.")


def known_migrations() -> Iterator[tuple[str, str]]:
    """Yield the app and the name of each migration of this version and of those that they replace."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    assert loader.disk_migrations is not None
    for key, migration in loader.disk_migrations.items():
        yield from (key, *migration.replaces)
