"""SQLite databases of other programs, read while they are in use and never written to.

A database that is in use is read under its own locks; one that is locked, or whose log was left behind, is copied to
a private folder first. A child process reads it (`sqlite_child.py`): values of limited size from stored columns of
ordinary tables. The child is ended when it has not answered for `STALL_S`, even inside a function of SQLite.
Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/security.html
"""

import base64
import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.lines import unreadable
from convmemory.core.child_limits import EXIT_MEMORY
from convmemory.core.decoding import count_decoded
from convmemory.core.errors import InvalidInput, TooLarge
from convmemory.core.sql import load_sql
from convmemory.core.work_folders import work_folder

STATEMENTS = "convmemory.conversations.importers"
MAX_COPY_BYTES = 4 * 1024**3
LOCK_WAIT_S = 2.0
COPY_ATTEMPTS = 3
STALL_S = 20.0
READER_MEMORY_MB = 1024
READER_TIMEOUT_S = 24 * 3600  # its parent has a limit of its own; databases of many gigabytes take hours

_WRITE_VERSION_AT = 18  # of the header: 2 if the database keeps a write-ahead log
_SIDE_FILES = ("-wal", "-journal")
_CHUNK = 1024**2


class Database:
    """A database that a child process has open, and the columns of its tables."""

    def __init__(self, path: Path, options: str, folder: Path) -> None:
        """Start the child, which keeps temporary files in `folder`. Raises: sqlite3.Error, InvalidInput."""
        self._path = path
        self._cursors = count()
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
            cwd=Path(__file__).parents[3],
            env={"PATH": os.defpath, "SQLITE_TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            tables = self._receive()["tables"]
        except BaseException:
            self.close()
            raise
        self.tables: Mapping[str, frozenset[str]] = {name: frozenset(columns) for name, columns in tables.items()}

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is such a table with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, statement: str, parameters: Iterable[object] = (), **names: str) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a statement of `importers/sql`; `names` replace `{table}` and the like in it.

        Generated columns, and rows that are referenced often, can hold far more than the file: what is read of an
        upload is counted. Raises: TooLarge.
        """
        cursor = next(self._cursors)
        sql = load_sql(STATEMENTS, statement).format(**names)
        batch = self._ask({"run": sql, "values": list(parameters), "cursor": cursor})
        try:
            while True:
                for row in batch["rows"]:
                    count_decoded(sum(len(value) for value in row if isinstance(value, str | bytes)))
                    yield dict(zip(batch["columns"], row, strict=True))
                if batch["is_last"]:
                    return
                batch = self._ask({"cursor": cursor})
        finally:
            if not batch["is_last"]:
                self._send({"close": cursor})

    def columns(self, table: str, names: Iterable[str]) -> str:
        """Return the columns as SQL, with NULL for each that an older version does not have."""
        return ", ".join(name if self.has(table, name) else f"NULL AS {name}" for name in names)

    def close(self) -> None:
        """End the child."""
        self.process.kill()
        self.process.communicate()

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        self._send(request)
        with _named_errors(self._path):
            return self._receive()

    def _send(self, request: Mapping[str, object]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the child has ended: the answer that is read next says why

    def _receive(self) -> dict[str, Any]:
        """Return the child's next frame. Raises: sqlite3.Error, InvalidInput."""
        deadline = time.monotonic() + STALL_S
        size = int.from_bytes(self._read(8, deadline), "big")
        message: dict[str, Any] = json.loads(self._read(size, deadline), object_hook=_decoded)
        if "error" in message:
            kind = sqlite3.OperationalError if message["error"] == "OperationalError" else sqlite3.DatabaseError
            raise kind(message["message"])
        return message

    def _read(self, size: int, deadline: float) -> bytes:
        assert self.process.stdout
        file = self.process.stdout.fileno()
        found = bytearray()
        while len(found) < size:
            if not select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self.process.kill()
                raise InvalidInput(
                    f"{self._path.name} cannot be read as an SQLite database: it returned no row for {STALL_S:.0f} s. "
                    "Open it with its own program, have that program compact or export it, and import the result."
                )
            chunk = os.read(file, min(_CHUNK, size - len(found)))
            if not chunk:
                raise InvalidInput(self._why_it_ended())
            found += chunk
        return bytes(found)

    def _why_it_ended(self) -> str:
        name = self._path.name
        if self.process.wait() == EXIT_MEMORY:
            return f"{name} cannot be read as an SQLite database: it needs more memory than {READER_MEMORY_MB} MB."
        return f"{name} is a damaged SQLite database: it ended the process that read it."


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open the database to read it. Raises: InvalidInput if it is damaged, locked for good, or cannot be read."""
    with work_folder("database") as folder:
        with _named_errors(path):
            database = _opened(path, folder)
        with closing(database):
            yield database


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
    if _left_alone(path):
        return Database(path, "mode=ro&immutable=1", folder)
    if not _log_was_left(path):
        try:
            return Database(path, "mode=ro", folder)
        except sqlite3.OperationalError:
            pass  # locked, or its folder cannot be written to
    return Database(_copied(path, folder), "mode=rw", folder)


def _left_alone(path: Path) -> bool:
    """Whether it keeps a log and no program has it open: reading it live would leave files beside it."""
    with path.open("rb") as file:
        header = file.read(_WRITE_VERSION_AT + 1)
    return header[_WRITE_VERSION_AT:] == b"\x02" and not _size(_beside(path, "-wal"))


def _log_was_left(path: Path) -> bool:
    """Whether a log lies beside it and nothing shows that a program has it open."""
    return bool(_size(_beside(path, "-wal"))) and not _beside(path, "-shm").exists()


def _copied(path: Path, folder: Path) -> Path:
    """The database with its log in `folder`, as they stood at one moment. Raises: InvalidInput, TooLarge."""
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
            _beside(target, ending).unlink(missing_ok=True)
            if _beside(path, ending).exists():
                shutil.copyfile(_beside(path, ending), _beside(target, ending))
        if _states(path) == before:
            return target
    raise InvalidInput(f"{path.name} is being written to: import it again when that program is idle.")


def _states(path: Path) -> list[tuple[int, int]]:
    """Size and time of change of the database and the files beside it."""
    files = [_beside(path, ending) for ending in ("", *_SIDE_FILES)]
    return [(file.stat().st_size, file.stat().st_mtime_ns) if file.exists() else (0, 0) for file in files]


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _decoded(value: dict[str, Any]) -> Any:
    """Return the bytes that a JSON object stands for; other objects as they are."""
    return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else value
