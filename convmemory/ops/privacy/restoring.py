"""Restores a backup of the embedded database and of its files.

A restore fills a new database, compares the rows with the manifest's, and only then renames it to the old one's name,
so that it succeeds completely or changes nothing. It does not trust the dump (`restoring.py`).
"""

import contextlib
import re
import subprocess
import time
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.db import connections
from django.utils import timezone
from psycopg import sql

from convmemory.core.encryption import key_fingerprint
from convmemory.core.errors import InvalidInput
from convmemory.core.files.work_folders import work_folder
from convmemory.core.postgres import server
from convmemory.core.postgres.base import close_pools
from convmemory.core.postgres.embedded import apply_policies
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql
from convmemory.ops.models import RestoreCheck
from convmemory.ops.privacy import backup
from convmemory.ops.privacy.backup import (
    CHUNK_BYTES,
    DUMP,
    BackupFailed,
    BackupReport,
    count_rows,
    embedded_target,
    program,
    running,
    stored_paths,
    verify,
)
from convmemory.ops.privacy.erasing import ErasedAccount

LEAVING_S = 5.0
PEOPLE = ("auth_user", "conversations_conversation", "documents_document")
AT_ONCE = 500
"""Tables and indexes per transaction: each takes a lock, of which a server's lock table has a limited number."""

Confirm = Callable[[Mapping[str, int]], None]
"""Asks before rows are replaced, by their numbers in each table; raises to keep them."""


def restore(*, path: Path, erased: Collection[ErasedAccount] = (), confirm: Confirm) -> BackupReport:
    """Replace the database by the one in the backup. The old one stays until the new one is complete.

    Users in the ledger of the old database cannot sign in to the new one, and their erasure has begun in it; the caller
    migrates it and calls `erase_again` with that ledger.

    `confirm` is called if the database has accounts or content, with the rows of each of their tables.

    Raises: InvalidInput if the backup is damaged, newer than this program or contains executable objects, or if the
    product is running; BackupFailed.
    """
    target = embedded_target()
    manifest = verify(path)
    with psycopg.connect(**target) as reader:
        counts = rows_of_people(reader.cursor())
    if counts:
        confirm(counts)
    connections.close_all()
    close_pools()
    replaced = _paths_in(target)
    name = str(target["dbname"])
    old = f"{name}_replaced"
    with psycopg.connect(**{**target, "dbname": "postgres"}, autocommit=True) as admin:
        deadline = time.monotonic() + LEAVING_S
        statement = sql.SQL(load_sql("convmemory.ops.privacy", "other_connections"))
        while (row := admin.execute(statement, [name]).fetchone()) and row[0] and time.monotonic() < deadline:
            time.sleep(0.1)  # a connection closed a moment ago may still be ending
        if row and row[0]:
            raise InvalidInput(f"{row[0]} connections use the database: stop `{COMMAND} up` and other commands first.")
        _drop(admin, old)
        with _filled_database(admin, target, path, manifest) as fresh:
            with psycopg.connect(**{**target, "dbname": fresh}) as inside:
                apply_policies(inside)
                _begin_erasures(inside, erased)
            with _files_restored(path):
                _swap(admin, name, fresh, old)
        _drop(admin, old)
    backup.remove_files(replaced - _paths_in(target))
    return _report(path, manifest)


def check_restore(*, path: Path) -> BackupReport:
    """Restore a backup into a database that is dropped again, and record that it succeeded.

    The product may run meanwhile. Raises: InvalidInput as `restore`, BackupFailed.
    """
    target = embedded_target()
    manifest = verify(path)
    with (
        psycopg.connect(**{**target, "dbname": "postgres"}, autocommit=True) as admin,
        _filled_database(admin, target, path, manifest),
    ):
        pass
    note_restore()
    return _report(path, manifest)


def note_restore() -> None:
    """Record that a backup could be restored just now."""
    RestoreCheck.objects.update_or_create(pk=1, defaults={"checked_at": timezone.now()})


def _report(path: Path, manifest: Mapping[str, Any]) -> BackupReport:
    return BackupReport(
        path.stat().st_size,
        sum(manifest["rows"].values()),
        manifest.get("files", 0),
        has_other_key=manifest.get("secret_key", key_fingerprint()) != key_fingerprint(),
    )


@contextmanager
def _filled_database(
    admin: psycopg.Connection, target: Mapping[str, Any], path: Path, manifest: dict[str, Any]
) -> Iterator[str]:
    """Yield the name of a new database with the backup's rows; drop it after the block, unless it was renamed."""
    fresh = f"{target['dbname']}_restored"
    _drop(admin, fresh)
    with restoring_role(admin) as role:
        try:
            new_database(admin, target, fresh, role)
            _fill({**target, "dbname": fresh, "user": role}, path, manifest)
            take_over({**target, "dbname": fresh}, role)
            yield fresh
        finally:
            _drop(admin, fresh)


def _begin_erasures(link: psycopg.Connection, erased: Collection[ErasedAccount]) -> None:
    """Shut out the erased users of a restored database: this process may end before `erase_again`."""
    statements = ["shut_out_erased", "begin_erasures"]
    row = link.execute(load_sql("convmemory.ops.privacy", "has_ledger").encode()).fetchone()
    if row and row[0]:  # in a backup of an older version, `erase_again` adds the ledger after the migrations
        statements.append("add_to_ledger")
    row = link.execute(load_sql("convmemory.ops.privacy", "has_archives").encode()).fetchone()
    if row and row[0]:
        statements.append("shut_members_out")
    for name in statements:
        link.cursor().executemany(load_sql("convmemory.ops.privacy", name).encode(), list(erased))


def _paths_in(target: Mapping[str, Any]) -> frozenset[str]:
    with psycopg.connect(**target) as reader:
        return frozenset(stored_paths(reader))


@contextlib.contextmanager
def _files_restored(path: Path) -> Iterator[None]:
    """Store the backup's files next to the existing ones; remove them again if the block fails."""
    try:
        with zipfile.ZipFile(path) as archive:
            new = backup.restore_files(archive)
    except OSError as error:
        raise BackupFailed(
            f"A document's file cannot be stored: {error.strerror or error}. Nothing changed."
        ) from error
    try:
        yield
    except BaseException:
        backup.remove_files(new)
        raise


def _fill(target: Mapping[str, Any], path: Path, manifest: dict[str, Any]) -> None:
    """Restore the dump into an empty database and compare its rows with the manifest's."""
    command = [*program("pg_restore", target), "--no-owner", "--no-privileges", f"--transaction-size={AT_ONCE}"]
    with work_folder("restore") as folder:
        listing, chosen = folder / "entries", folder / "chosen"
        _feed([str(server.binary("pg_restore")), "--list", "--file", str(listing)], path)
        chosen.write_text(entries_to_restore(listing.read_text("utf-8", "replace")), encoding="utf-8")
        _feed([*command, "--use-list", str(chosen), "--dbname", str(target["dbname"])], path)
    with psycopg.connect(**target, autocommit=True) as reader:
        if count_rows(reader) != manifest["rows"]:
            raise BackupFailed("The restored tables do not hold the rows of the backup. The old database is unchanged.")


def _feed(command: list[str], path: Path) -> None:
    """Run a program with the dump as its input."""
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(DUMP) as file,
        running(command, stdin=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:  # it has read enough, or its message gives the reason
            while chunk := file.read(CHUNK_BYTES):
                process.stdin.write(chunk)


def rows_of_people(cursor: Any) -> dict[str, int]:
    """Return the numbers of accounts, conversations and documents by table; a table without rows is left out.

    `cursor` is one of psycopg, or of Django.
    """
    counts = {}
    for name in PEOPLE:
        cursor.execute(load_sql("convmemory.ops.privacy", "has_table"), [name])
        if cursor.fetchone() == (True,):
            cursor.execute(load_sql("convmemory.ops", "count_all").format(name))
            (counts[name],) = cursor.fetchone()
    return {name: count for name, count in counts.items() if count}


def _swap(admin: psycopg.Connection, name: str, fresh: str, old: str) -> None:
    """Rename the new database to the old one's name; both renamings or none."""
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
    admin.execute(rename.format(sql.Identifier(name), sql.Identifier(old)))
    try:
        admin.execute(rename.format(sql.Identifier(fresh), sql.Identifier(name)))
    except psycopg.Error:
        admin.execute(rename.format(sql.Identifier(old), sql.Identifier(name)))
        raise


def _drop(admin: psycopg.Connection, name: str) -> None:
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


ROLE = "convmemory_restore"
RESTORED = frozenset({
    "TABLE", "TABLE DATA", "SEQUENCE", "SEQUENCE SET", "SEQUENCE OWNED BY", "DEFAULT", "CONSTRAINT", "CHECK CONSTRAINT",
    "FK CONSTRAINT", "INDEX", "TEXT SEARCH CONFIGURATION", "TEXT SEARCH DICTIONARY",
})  # fmt: skip
MADE_BEFORE = frozenset({("EXTENSION", "vector"), ("COMMENT", "EXTENSION vector")})
"""Entries that need a superuser; `new_database` has created these objects."""
MADE_FIRST = ("convmemory_folded(", "convmemory_words(", "convmemory_contents(")
"""Functions that a dump contains and that are never restored: columns are computed by them, so `new_database` creates
them."""
MADE_AFTER = (
    "convmemory_caller_of_key(",
    "convmemory_owner_of_key(",
    "convmemory_owner_of_identity(",
    "convmemory_owner_of_share_link(",
    "convmemory_waiting_tasks(",
    "convmemory_knows_address(",
    "convmemory_role_in_space(",
    "convmemory_spaces(",
    "convmemory_changes_of_spaces(",
    "convmemory_messages_of_spaces(",
    "convmemory_invitations(",
    "convmemory_spaces_of_key(",
    "convmemory_archive_of(",
    "convmemory_waiting_uploads(",
    "convmemory_count_act(",
)
"""Functions that a dump contains and that are never restored: `core/postgres/row_security.py` creates them."""

CALLED = frozenset({
    "and", "or", "not", "any", "all", "in", "coalesce", "nextval", "array_to_tsvector", "binary_quantize", "halfvec",
    "vector", "bit", "varying", "numeric", "to_tsvector", "convmemory_folded", "convmemory_contents", "regexp_replace",
    '"substring"',
})  # fmt: skip
"""Words before a parenthesis in the expressions of this program's tables: functions, operators and types."""

_ENTRY = re.compile(r"(?<!\d)\d++; \d++ \d++ ([A-Z ]+) (?:public|-) (.*)")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_BEFORE_PARENTHESIS = re.compile(r'(?<![\w".])([\w".]++)\s*+\(')


# A backup can come from any source, and restoring one executes its contents. Only tables, sequences, constraints,
# indexes and rows are restored, by a role that may do nothing but own the new database. A dump can define a function
# call for a table; so the contents of the new database are checked before this program, which is its superuser, reads a
# row of it.
def entries_to_restore(listing: str) -> str:
    """Return the lines of `pg_restore --list` to restore. Raises: InvalidInput if one is of another kind."""
    kept = []
    for line in listing.splitlines():
        if not line.strip() or line.startswith(";"):
            continue
        entry = _ENTRY.fullmatch(line)
        kind, name = (entry[1], entry[2].strip()) if entry else ("", line)
        if kind in RESTORED:
            kept.append(line)
        elif (kind, name) not in MADE_BEFORE and not (
            kind == "FUNCTION" and name.startswith((*MADE_FIRST, *MADE_AFTER))
        ):
            raise InvalidInput(_refusal(f"{kind} {name}".strip()))
    return "\n".join(kept) + "\n"


@contextmanager
def restoring_role(admin: psycopg.Connection) -> Iterator[str]:
    """Yield a role that can log in and nothing else; it must own nothing when the block ends."""
    role = sql.Identifier(ROLE)
    admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
    admin.execute(sql.SQL(load_sql("convmemory.ops.privacy", "create_restoring_role")).format(role))
    try:
        yield ROLE
    finally:
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))


def new_database(admin: psycopg.Connection, target: Mapping[str, Any], name: str, role: str) -> None:
    """Create an empty database owned by the role, with the extension that only a superuser can create."""
    create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(role))
    admin.execute(create)
    with psycopg.connect(**{**target, "dbname": name}, autocommit=True) as inside:
        inside.execute("CREATE EXTENSION vector SCHEMA public")
        inside.execute(load_sql("search", "make_word_functions"))
        inside.execute(load_sql("convmemory.conversations", "make_contents_function"))


def take_over(target: Mapping[str, Any], role: str) -> None:
    """Make the program the owner of the restored database. Raises: InvalidInput if it contains executable objects."""
    with psycopg.connect(**target, options="-c search_path=pg_catalog,public") as inside:
        foreign = inside.execute(sql.SQL(load_sql("convmemory.ops.privacy", "foreign_objects"))).fetchall()
        expressions = inside.execute(sql.SQL(load_sql("convmemory.ops.privacy", "expressions"))).fetchall()
        executable = [f"{kind} {name}" for kind, name in foreign]
        for (text,) in expressions:
            called = _BEFORE_PARENTHESIS.findall(_LITERAL.sub("''", text))
            executable += [f"call of {word}" for word in called if word.lower() not in CALLED]
        if executable:
            raise InvalidInput(_refusal(executable[0]))
        inside.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(role)))
        inside.execute("ANALYZE")


def _refusal(what: str) -> str:
    return (
        f"The backup holds something that convmemory never stores: {what}. It could run code, "
        "so nothing of it is restored. Nothing was changed."
    )
