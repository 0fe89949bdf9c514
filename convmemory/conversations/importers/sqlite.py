"""SQLite databases of other programs, read while they are in use and never written to.

A database that is in use is read under its own locks; one that is locked, or whose log was left behind, is copied to
a private folder first. What is read is bounded: tables alone, values of limited size, a limited number of steps.
Source: https://www.sqlite.org/wal.html, https://www.sqlite.org/security.html
"""

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from convmemory.conversations.importers.base import Source
from convmemory.conversations.importers.lines import unreadable
from convmemory.core.decoding import count_decoded
from convmemory.core.errors import InvalidInput, TooLarge
from convmemory.core.sql import load_sql
from convmemory.core.work_folders import work_folder

STATEMENTS = "convmemory.conversations.importers"
MAX_VALUE_BYTES = 64 * 1024**2
MAX_COPY_BYTES = 4 * 1024**3
LOCK_WAIT_S = 2.0
COPY_ATTEMPTS = 3

_WRITE_VERSION_AT = 18  # of the header: 2 if the database keeps a write-ahead log
_STEPS_PER_CHECK = 1_000_000
_MAX_CHECKS = 20_000
_SIDE_FILES = ("-wal", "-journal")


@dataclass(frozen=True, slots=True)
class Database:
    """An open database and what its tables are called."""

    connection: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is such a table with these columns."""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, statement: str, parameters: Iterable[object] = (), **names: str) -> Iterator[sqlite3.Row]:
        """The rows of a statement of `importers/sql`, one at a time; `names` stand in it for `{table}` and the like.

        Generated columns, and rows that are referenced often, can hold far more than the file: what is read of an
        upload is counted. Raises: TooLarge.
        """
        for row in self.connection.execute(load_sql(STATEMENTS, statement).format(**names), tuple(parameters)):
            count_decoded(sum(len(value) for value in row if isinstance(value, str | bytes)))
            yield row

    def columns(self, table: str, names: Iterable[str]) -> str:
        """The columns as SQL, with NULL for each that an older version does not have."""
        return ", ".join(name if self.has(table, name) else f"NULL AS {name}" for name in names)


def tables_of(source: Source) -> Mapping[str, frozenset[str]]:
    """The database's tables with their columns. Raises: InvalidInput if it cannot be opened."""
    with open_database(source.path) as database:
        return database.tables


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """The database for reading. Raises: InvalidInput if it is damaged, locked for good, or cannot be read."""
    try:
        with _opened(path) as connection:
            yield Database(connection, _tables(connection))
    except sqlite3.OperationalError as error:
        raise InvalidInput(f"{path.name} cannot be read as an SQLite database: {_reason(error)}.") from error
    except sqlite3.DatabaseError as error:
        raise InvalidInput(f"{path.name} is a damaged SQLite database: {error}.") from error
    except UnicodeDecodeError as error:  # of SQLite's own message, which quotes the damaged names
        raise InvalidInput(f"{path.name} is a damaged SQLite database: its schema cannot be read.") from error
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    if _left_alone(path):
        with closing(_connect(path, "mode=ro&immutable=1")) as at_rest:
            yield at_rest
        return
    connection: sqlite3.Connection | None
    try:
        connection = _connect(path, "mode=ro") if not _log_was_left(path) else None
    except sqlite3.OperationalError:
        connection = None  # locked, or its folder cannot be written to
    if connection is not None:
        with closing(connection):
            yield connection
        return
    with (
        work_folder("database") as folder,
        closing(_connect(_copied(path, folder), "mode=rw")) as copy,
    ):
        yield copy


def _left_alone(path: Path) -> bool:
    """Whether it keeps a log and no program has it open: reading it live would leave files beside it."""
    with path.open("rb") as file:
        header = file.read(_WRITE_VERSION_AT + 1)
    return header[_WRITE_VERSION_AT:] == b"\x02" and not _size(_beside(path, "-wal"))


def _log_was_left(path: Path) -> bool:
    """Whether a log lies beside it and nothing shows that a program has it open."""
    return bool(_size(_beside(path, "-wal"))) and not _beside(path, "-shm").exists()


def _connect(path: Path, options: str) -> sqlite3.Connection:
    """A connection that has read something, so that the lock is held or refused. Raises: sqlite3.Error."""
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{options}", uri=True, timeout=LOCK_WAIT_S)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.text_factory = _decoded
        connection.row_factory = sqlite3.Row
        connection.set_progress_handler(_StepLimit(), _STEPS_PER_CHECK)
        for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")  # one state of the database, however long it is read
        connection.execute(load_sql(STATEMENTS, "sqlite_tables")).fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


class _StepLimit:
    """Ends a query that would run for hours."""

    def __init__(self) -> None:
        self._checks = 0

    def __call__(self) -> bool:
        self._checks += 1
        return self._checks > _MAX_CHECKS


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


def _tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    """The tables proper: no views and no virtual tables, which can hold code of their own."""
    rows = connection.execute(load_sql(STATEMENTS, "sqlite_tables"))
    names = [str(row["name"]) for row in rows]
    query = load_sql(STATEMENTS, "sqlite_columns")
    return {name: frozenset(str(row["name"]) for row in connection.execute(query, [name])) for name in names}


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _decoded(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _reason(error: sqlite3.Error) -> str:
    return "it would take too long" if "interrupt" in str(error) else str(error)
