"""SQLite databases of other programs, read while they are in use and never written to.

A database in use is read under its own locks; a locked one, or one with a leftover log, is first copied to a private
folder. A child process reads it (`sqlite_child.py`): values of limited size from stored columns of ordinary tables. The
child is killed if it has not answered for `STALL_S`, even inside a function of SQLite.

Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/security.html
"""

import fcntl
import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import zstandard

from convmemory.conversations.importers.lines import unreadable
from convmemory.core.errors import InvalidInput, TooLarge
from convmemory.core.files.decoding import count_decoded
from convmemory.core.files.work_folders import work_folder
from convmemory.core.processes.child_limits import EXIT_MEMORY
from convmemory.core.sql import load_sql

STATEMENTS = "convmemory.conversations.importers"
MAX_VALUE_BYTES = 64 * 1024**2  # of one compressed value
MAX_COPY_BYTES = 4 * 1024**3
LOCK_WAIT_S = 2.0  # then a copy is read, because a lock can last as long as its program runs
COPY_ATTEMPTS = 3  # a copy is used only if nothing changed while it was made
# No limit of SQLite applies within one call: a generated column in a file of 12 kB ran without end.
STALL_S = 20.0
READER_MEMORY_MB = 1024
READER_TIMEOUT_S = 24 * 3600  # the parent has its own limit; databases of many gigabytes take hours

_PACKAGE = Path(__file__).resolve().parents[2]
SQLITE_START = b"SQLite format 3\0"
_WRITE_VERSION_AT = 18  # of the header: 2 if the database keeps a write-ahead log
_SIDE_FILES = ("-wal", "-journal")
_CHUNK = 1024**2


class Database:
    """A database that a child process has open, and the columns of its tables."""

    def __init__(self, path: Path, options: str, folder: Path) -> None:
        """Start the child, which runs and stores temporary files in `folder`. Raises: sqlite3.Error, InvalidInput."""
        self._path = path
        self._cursors = count()
        package = folder / _PACKAGE.name
        if not package.exists():  # a confined process may not list the package's parent folder
            package.symlink_to(_PACKAGE)
        limits = [str(READER_MEMORY_MB), str(READER_TIMEOUT_S), str(os.getpid())]
        self.process = subprocess.Popen(  # noqa: S603
            [
                sys.executable,
                "-m",
                f"{STATEMENTS}.sqlite_child",
                str(path.resolve()),
                options,
                str(LOCK_WAIT_S),
                *limits,
            ],
            cwd=folder,
            env={"PATH": os.defpath, "SQLITE_TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout
        if sys.platform == "linux":
            with suppress(OSError):  # over a user's limit for pipes; the default size is only slower
                fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, _CHUNK)
        try:
            tables = self._receive()[0]["tables"]
        except BaseException:
            self.close()
            raise
        self.tables: Mapping[str, frozenset[str]] = {name: frozenset(columns) for name, columns in tables.items()}

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the table exists with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, statement: str, parameters: Iterable[object] = (), **names: str) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a statement of `importers/queries.sql`; `names` replace `{table}` and the like in it.

        Rows that are read several times can exceed the file's size many times: bytes read of an upload are counted.
        Raises: TooLarge.
        """
        cursor = next(self._cursors)
        sql = load_sql(STATEMENTS, statement).format(**names)
        batch, contents = self._ask({"run": sql, "values": list(parameters), "cursor": cursor})
        try:
            while True:
                yield from _decoded(batch, contents)
                if batch["is_last"]:
                    return
                batch, contents = self._ask({"cursor": cursor})
        finally:
            if not batch["is_last"]:
                self._send({"close": cursor})

    def columns(self, table: str, names: Iterable[str]) -> str:
        """Return the columns as SQL, with NULL for each that an older version lacks."""
        return ", ".join(name if self.has(table, name) else f"NULL AS {name}" for name in names)

    def close(self) -> None:
        """Kill the child."""
        self.process.kill()
        self.process.communicate()

    def _ask(self, request: Mapping[str, object]) -> tuple[dict[str, Any], bytes]:
        self._send(request)
        with _named_errors(self._path):
            return self._receive()

    def _send(self, request: Mapping[str, object]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the child has ended: reading its answer raises the reason

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the child's next message with the bytes that follow it. Raises: sqlite3.Error, InvalidInput."""
        deadline = time.monotonic() + STALL_S
        size = int.from_bytes(self._read(8, deadline), "big")
        line, _, contents = self._read(size, deadline).partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            kind = sqlite3.OperationalError if message["error"] == "OperationalError" else sqlite3.DatabaseError
            raise kind(message["message"])
        return message, contents

    def _read(self, size: int, deadline: float) -> bytes:
        assert self.process.stdout
        file = self.process.stdout.fileno()
        content = bytearray()
        while len(content) < size:
            if not select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self.process.kill()
                raise InvalidInput(
                    f"{self._path.name} cannot be read as an SQLite database: it returned no row for {STALL_S:.0f} s. "
                    "Open it with its own program, have that program compact or export it, and import the result."
                )
            chunk = os.read(file, min(_CHUNK, size - len(content)))
            if not chunk:
                name = self._path.name
                if self.process.wait() == EXIT_MEMORY:
                    reason = (
                        f"{name} cannot be read as an SQLite database: it needs more memory than {READER_MEMORY_MB} MB."
                    )
                else:
                    reason = f"{name} is a damaged SQLite database: it ended the process that read it."
                raise InvalidInput(reason)
            content += chunk
        return bytes(content)


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open the database to read it. Raises: InvalidInput if it is damaged, locked for good, or cannot be read."""
    with work_folder("database") as folder:
        with _named_errors(path):
            database = _opened(path, folder)
        with closing(database):
            yield database


class SharedDatabase:
    """A database that is opened for each use, or only once for all uses within a block.

    Starting the child that reads it takes 0.07 s of processor time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: ExitStack | None = None
        self._database: Database | None = None

    @contextmanager
    def opened(self) -> Iterator[Database]:
        """Open the database, or use the one that is kept open. Raises: InvalidInput like `open_database`."""
        if self._kept is None:
            with open_database(self._path) as database:
                yield database
            return
        if self._database is None:
            self._database = self._kept.enter_context(open_database(self._path))
        yield self._database

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the database open from its first use to the end of the block."""
        with ExitStack() as kept:
            self._kept = kept
            try:
                yield
            finally:
                self._kept = self._database = None


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise InvalidInput(f"{path.name} cannot be read as an SQLite database: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{path.name} is a damaged SQLite database: {error}.") from error
    except OSError as error:
        raise unreadable(path, error) from error


def _opened(path: Path, folder: Path) -> Database:
    # SQLite refuses such a file too, but a child takes 0.07 s to find that out. A log or journal that was left behind
    # may hold the first page of a database, and an empty file is one.
    with path.open("rb") as file:
        start = file.read(len(SQLITE_START))
    if start not in (b"", SQLITE_START) and not any(_size(_with_ending(path, ending)) for ending in _SIDE_FILES):
        raise sqlite3.DatabaseError("file is not a database")
    # It has a log and no program has it open: reading it live would leave files next to it.
    with path.open("rb") as file:
        header = file.read(_WRITE_VERSION_AT + 1)
    if header[_WRITE_VERSION_AT:] == b"\x02" and not _size(_with_ending(path, "-wal")):
        return Database(path, "mode=ro&immutable=1", folder)
    # Otherwise a log was left behind, although no program seems to have the database open.
    if not _size(_with_ending(path, "-wal")) or _with_ending(path, "-shm").exists():
        try:
            return Database(path, "mode=ro", folder)
        except sqlite3.OperationalError:
            pass  # locked, or its folder cannot be written to
    # Copy the database with its log to `folder`, in a consistent state.
    target = folder / "copy.db"
    for _ in range(COPY_ATTEMPTS):
        before = _states(path)
        size = sum(size for size, _ in before)
        if size > MAX_COPY_BYTES:
            raise TooLarge(
                f"{path.name} is locked by another program, and with {size // 1024**2} MB too large to be copied: "
                "close that program and import it again."
            )
        if shutil.disk_usage(folder).free < 2 * size:
            raise InvalidInput(f"There is no room to copy {path.name}, which another program has locked: free some.")
        for ending in ("", *_SIDE_FILES):
            _with_ending(target, ending).unlink(missing_ok=True)
            if _with_ending(path, ending).exists():
                shutil.copyfile(_with_ending(path, ending), _with_ending(target, ending))
        if _states(path) == before:
            return Database(target, "mode=rw", folder)
    raise InvalidInput(f"{path.name} is being written to: import it again when that program is idle.")


def _states(path: Path) -> list[tuple[int, int]]:
    """Return size and modification time of the database and its side files."""
    files = [_with_ending(path, ending) for ending in ("", *_SIDE_FILES)]
    return [(file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else (0, 0) for file in files]


def _with_ending(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _decoded(batch: Mapping[str, Any], contents: bytes) -> Iterator[dict[str, Any]]:
    """Yield and count the rows of a batch in the format of `sqlite_child`. Raises: TooLarge."""
    columns, end = batch["columns"], 0
    for described in batch["rows"]:
        row: dict[str, Any] = {}
        row_start = end
        for column, item in zip(columns, described, strict=True):
            if item.__class__ is int:
                start = end
                if item >= 0:
                    end += item
                    row[column] = contents[start:end].decode("utf-8", "replace")
                else:
                    end += ~item
                    row[column] = contents[start:end]
            else:
                row[column] = item[0] if item else None
        count_decoded(end - row_start)
        yield row


def decompressed(data: bytes) -> bytes:
    """Return the content of a value that is a zstd frame.

    Raises: InvalidInput if the frame is damaged, cut off or too large; TooLarge for the upload as a whole.
    """
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_VALUE_BYTES * 2).stream_reader(data)
    content = bytearray()
    try:
        while chunk := reader.read(_CHUNK):
            count_decoded(len(chunk))
            content += chunk
            if len(content) > MAX_VALUE_BYTES:
                raise InvalidInput(f"it holds more than {MAX_VALUE_BYTES // 1024**2} MB")
    except zstandard.ZstdError as error:
        raise InvalidInput(f"its compressed data is damaged: {error}") from error
    return bytes(content)
