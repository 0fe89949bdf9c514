"""Backups of the embedded database and of its files: one file, which `verify` checks before a restore.

A backup is a zip file with `dump.pgc` (the output of pg_dump, streamed), `files/` (documents, kept and waiting
uploads), and `manifest.json` with the dump's checksum, the number of rows of each table in the same snapshot, and a
fingerprint of SECRET_KEY. `restoring.py` restores it.
"""

import contextlib
import hashlib
import json
import logging
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
from django.core.files import File
from django.db import connection
from django.utils import timezone
from psycopg import sql

from convmemory.conversations.importing.models import kept_place, upload_storage
from convmemory.core.encryption import key_fingerprint
from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.files.private_files import drop_drafts_of, has_digest, written_whole
from convmemory.core.files.uploads import PrivateStorage
from convmemory.core.postgres import server
from convmemory.core.sql import load_sql
from convmemory.core.upgrading import missing_for_upgrade, unknown_migration
from convmemory.documents.storage import document_storage, place_of

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
    """Bytes of the backup, rows in all tables, stored files, and whether it was written with another SECRET_KEY."""

    size: int
    rows: int
    files: int = 0
    has_other_key: bool = False


def back_up(*, path: Path) -> BackupReport:
    """Write a backup to `path`, readable by its owner alone; it appears when complete.

    The product may run meanwhile. Raises: InvalidInput if the file exists or the database is not the embedded one,
    BackupFailed.
    """
    target = embedded_target()
    with new_archive(path) as archive:
        facts = back_up_into(archive, target)
    return BackupReport(path.stat().st_size, sum(facts["rows"].values()), facts["files"])


def back_up_into(archive: zipfile.ZipFile, target: Mapping[str, Any]) -> dict[str, Any]:
    """Write a backup of the `embedded_target` into an archive; return its manifest. Raises: BackupFailed."""
    with _snapshot(target) as (snapshot, facts):
        with archive.open(DUMP, "w", force_zip64=True) as file:
            command = [*program("pg_dump", target), *WHAT_TO_DUMP, f"--snapshot={snapshot}"]
            digest, size = hashlib.sha256(), 0
            with running([*command, str(target["dbname"])], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                while chunk := process.stdout.read(CHUNK_BYTES):
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
            facts["dump"] = {"sha256": digest.hexdigest(), "size": size}
        facts["files"] = add_files(archive, facts.pop("places"))
        archive.writestr(MANIFEST, json.dumps(facts, indent=1))
    return facts


def verify(source: Path | IO[bytes], *, name: str = "") -> dict[str, Any]:
    """Return the manifest of a complete backup that this program can read. Raises: InvalidInput, with its `name`."""
    path = name or source
    try:
        with zipfile.ZipFile(source) as archive:
            manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
            if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
                raise InvalidInput(f"{path} is no backup that this version reads.")
            with archive.open(DUMP) as file:
                digest = hashlib.sha256()
                while chunk := file.read(CHUNK_BYTES):
                    digest.update(chunk)
            verify_files(archive)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, NotImplementedError) as error:
        raise InvalidInput(f"{path} is damaged or no backup: {error}. Nothing was changed.") from error
    if digest.hexdigest() != manifest["dump"]["sha256"]:
        raise InvalidInput(f"{path} is damaged: its checksum is not the one it was written with. Nothing was changed.")
    applied: set[tuple[str, str]] = {(app, migration) for app, migration in manifest["migrations"]}
    if missing := missing_for_upgrade(applied):
        raise InvalidInput(
            f"{path} is of an older version (without the migration {missing}): restore it with commit 5e9aed6e, "
            "and make a new backup there."
        )
    if unknown := unknown_migration(applied):
        raise InvalidInput(f"{path} is of a newer version (with the migration {unknown}): update convmemory first.")
    return manifest


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
                "secret_key": key_fingerprint(),
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
    """Return the paths of documents' files and of uploads; a database of an older version may have none."""
    tables = _tables(reader)
    statements = [name for table, name in STATEMENTS.items() if table in tables]
    return [stored for name in statements for (stored,) in _rows(reader, load_sql("convmemory.ops.privacy", name))]


def count_rows(reader: psycopg.Connection) -> dict[str, int]:
    """Return the number of rows of each table in a backup."""
    counting = sql.SQL(load_sql("convmemory.ops", "count_all"))
    counts = {}
    for name in _tables(reader):
        row = reader.execute(counting.format(sql.Identifier(name))).fetchone()
        counts[name] = int(row[0]) if row else 0
    return counts


def _tables(reader: psycopg.Connection) -> list[str]:
    """Return the names of the tables that hold rows."""
    return [name for (name,) in _rows(reader, load_sql("convmemory.ops.privacy", "backed_up_tables"))]


def program(name: str, target: Mapping[str, Any]) -> list[str]:
    """Return the command line of a PostgreSQL program that connects to the database."""
    address = ["--host", str(target["host"]), "--port", str(target["port"]), "--username", str(target["user"])]
    return [str(server.binary(name)), *address, "--no-password"]


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
            if server.DISK_FULL.search(message):
                raise BackupFailed(
                    "The disk of the database is full: free space and run the command again. Nothing was changed."
                )
            raise BackupFailed(f"{Path(command[0]).name} failed: {message[-1_000:]}. Nothing was changed.")


FOLDER = "files/"
WAITING = "waiting/"
STATEMENTS = {
    "documents_document": "stored_files",
    "conversations_keptupload": "stored_uploads",
    "conversations_import": "waiting_uploads",
}
"""The statement, by table, that returns the paths of its rows' files."""
# The largest id of a row has as many digits.
MAX_OWNER_DIGITS = 19
HEXADECIMAL = frozenset("0123456789abcdef")

logger = logging.getLogger(__name__)


# Files of documents and kept uploads are named by their digest, which verifies them; uploads whose import has not ended
# are below WAITING with random names. A backup can come from any source: other names are refused, and no name becomes
# part of a path.
def add_files(archive: zipfile.ZipFile, places: Iterable[str]) -> int:
    """Add the stored files to the archive; return their number.

    Files deleted meanwhile are left out, and so are damaged ones, with which the backup could not be restored.
    """
    count = 0
    for stored in places:
        path = _path_of(stored)
        if not _is_whole(stored):
            if path.exists():
                logger.warning("%s is damaged and not in the backup: its owner has to upload it again", stored)
            continue
        with path.open("rb") as source, archive.open(FOLDER + stored, "w", force_zip64=True) as target:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
        count += 1
    return count


def verify_files(archive: zipfile.ZipFile) -> None:
    """Verify the files. Raises: InvalidInput if a file has another name, or does not match the digest in it."""
    for stored, entry in _files_of(archive):
        digest = hashlib.sha256()
        with archive.open(entry) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        if not stored.startswith(WAITING) and digest.hexdigest() != stored.rpartition("/")[2]:
            raise InvalidInput(f"The backup is damaged: {FOLDER}{stored} is not whole. Nothing was changed.")


def restore_files(archive: zipfile.ZipFile) -> list[str]:
    """Store the archive's files next to the existing ones, all or none; return the paths of the new ones.

    Raises: OSError.
    """
    new = list[str]()
    try:
        for stored, entry in _files_of(archive):
            if _is_whole(stored):
                continue
            new.append(stored)
            storage, name = _stored_as(stored)
            with archive.open(entry) as file:
                storage.save(name, File(file))
    except BaseException:
        remove_files(new)
        raise
    return new


def remove_files(places: Iterable[str]) -> None:
    """Delete stored files."""
    for stored in places:
        storage, name = _stored_as(stored)
        storage.delete(name)


def _stored_as(stored: str) -> tuple[PrivateStorage, str]:
    """Return the storage of a file and its name there."""
    if stored.startswith(WAITING):
        return upload_storage(), stored.removeprefix(WAITING)
    return document_storage(), stored


def _path_of(stored: str) -> Path:
    storage, name = _stored_as(stored)
    return Path(storage.path(name))


def _is_whole(stored: str) -> bool:
    path = _path_of(stored)
    return path.exists() if stored.startswith(WAITING) else has_digest(path, stored.rpartition("/")[2])


def _files_of(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    for entry in archive.infolist():
        if entry.filename.startswith(FOLDER):
            stored = entry.filename.removeprefix(FOLDER)
            if not _is_place(stored):
                raise InvalidInput(
                    f"The backup holds {entry.filename[:100]!r}, which is the file of no document or upload."
                )
            yield stored, entry


def _is_place(stored: str) -> bool:
    """Return whether `place_of`, `kept_place` or, below WAITING, `upload_place` could have produced this path."""
    if stored.startswith(WAITING):
        owner, _, name = stored.removeprefix(WAITING).partition("/")
        return _is_owner(owner) and len(name) == 32 and not set(name) - HEXADECIMAL
    owner, digest = stored.split("/")[1:4:2] if stored.count("/") == 3 else ("", "")
    is_digest = len(digest) == 64 and not set(digest) - HEXADECIMAL
    return (
        _is_owner(owner)
        and is_digest
        and stored in [makes(archive_id=int(owner), digest=digest) for makes in (place_of, kept_place)]
    )


def _is_owner(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_OWNER_DIGITS


@contextmanager
def new_archive(path: Path, *, level: int | None = None) -> Iterator[zipfile.ZipFile]:
    """Yield an archive to fill in the block, which appears at `path` afterwards; without a `level` it is not
    compressed.

    Raises: InvalidInput if the file exists or cannot be written.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: there is no folder {path.parent}.")
    how = zipfile.ZIP_STORED if level is None else zipfile.ZIP_DEFLATED
    try:
        drop_drafts_of(path)
        with written_whole(path) as output, zipfile.ZipFile(output, "w", how, compresslevel=level) as archive:
            yield archive
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}.") from error
