"""The process that reads one SQLite database of another program for `sqlite.py`.

It runs as `python -m convmemory.conversations.importers.sqlite_child`. Arguments: the database's path, the options of
its URI, the seconds to wait for a lock, and the limits of the process. Each line of its standard input is a request as
JSON: `{"run": SQL, "values": [...], "cursor": 1}`, `{"cursor": 1}` for more rows, or `{"close": 1}`, which has no
answer. An answer is eight bytes of length, then a line of JSON: first the tables, then batches of rows, or an error. In
a row, a number is in a list of its own; texts and blobs follow the line, and the row has their sizes: n bytes of text
as `n`, of a blob as `~n`.

Source: https://www.sqlite.org/security.html, https://www.sqlite.org/c3ref/set_authorizer.html
"""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from convmemory.core.processes.child_limits import run_under_limits
from convmemory.core.processes.confinement import Access

MAX_VALUE_BYTES = 64 * 1024**2
MAX_TABLES = 1_000
BATCH_ROWS = 500  # in one answer, to save round trips
BATCH_BYTES = 1024**2
BATCH_S = 1.0

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' LIMIT ?"
_COLUMNS = "SELECT name, hidden FROM pragma_table_xinfo(?)"
_GENERATED = (2, 3)  # values of `hidden`: computed when read, computed when written


def _work(arguments: Sequence[str]) -> None:
    path, options, lock_wait_s = arguments
    try:
        with closing(
            sqlite3.connect(f"file:{quote(path)}?{options}", uri=True, timeout=float(lock_wait_s))
        ) as database:
            _send({"tables": _open(database)})
            _answer(database)
    except sqlite3.Error as error:
        is_denied = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_AUTH
        message = f"{error}: only stored columns of ordinary tables are read" if is_denied else str(error)
        _send({"error": "OperationalError" if is_denied else type(error).__name__, "message": message})
    except UnicodeDecodeError:  # from SQLite's own message, which quotes the damaged names
        _send({"error": "DatabaseError", "message": "its schema cannot be read"})


def _open(database: sqlite3.Connection) -> dict[str, list[str]]:
    """Prepare the connection to read foreign data and return the columns of each table.

    Leaves out virtual tables and views, which can run code of their own, and generated columns, whose expressions can
    take any time.
    """
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    database.text_factory = lambda value: value.decode("utf-8", "replace")
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    try:
        database.execute(_TABLES, [1])
    except sqlite3.DatabaseError as error:
        if "unsafe use of" not in str(error):
            raise
        # One index with a function such as json_extract makes a database unreadable whose schema is not trusted. Now
        # that index is passed over. Nothing is written: the connection is `query_only`.
        database.execute("PRAGMA writable_schema = ON")
    database.execute("BEGIN")  # one consistent state for the whole reading
    names = [str(name) for (name,) in database.execute(_TABLES, [MAX_TABLES])]
    columns = {name: list(database.execute(_COLUMNS, [name])) for name in names}
    readable = {
        name: [str(column) for column, kind in rows if kind not in _GENERATED] for name, rows in columns.items()
    }

    def authorize(action: int, table: str | None, column: str | None, *_rest: str | None) -> int:
        is_allowed = action == sqlite3.SQLITE_SELECT or (
            action == sqlite3.SQLITE_READ and table in readable and (not column or column in readable[table])
        )
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    database.set_authorizer(authorize)
    return readable


def _answer(database: sqlite3.Connection) -> None:
    database.text_factory = bytearray  # distinguishes texts from blobs; the parent decodes
    cursors: dict[int, sqlite3.Cursor] = {}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "close" in request:
            if cursor := cursors.pop(request["close"], None):
                cursor.close()
            continue
        if "run" in request:
            cursors[request["cursor"]] = database.execute(request["run"], request["values"])
        cursor = cursors[request["cursor"]]
        # The next rows with sizes in place of texts and blobs, the texts and blobs, and whether these are the last
        # rows. A slow query returns its rows so far after a second.
        batch: list[list[object]] = []
        contents: list[bytes | bytearray] = []
        size = 0
        started = time.monotonic()
        for row in cursor:
            described: list[object] = []
            for value in row:
                if isinstance(value, bytes | bytearray):
                    contents.append(value)
                    size += len(value)
                    described.append(len(value) if isinstance(value, bytearray) else ~len(value))
                else:
                    described.append(None if value is None else [value])
            batch.append(described)
            if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES or time.monotonic() - started > BATCH_S:
                rows, is_last = batch, False
                break
        else:
            rows, is_last = batch, True
        if is_last:
            del cursors[request["cursor"]]
        _send({"columns": [column[0] for column in cursor.description], "rows": rows, "is_last": is_last}, contents)


def _send(message: Mapping[str, object], contents: Iterable[bytes | bytearray] = ()) -> None:
    frame = b"".join([json.dumps(message).encode(), b"\n", *contents])
    sys.stdout.buffer.write(len(frame).to_bytes(8, "big"))
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


def _access(arguments: Sequence[str]) -> Access:
    """Return the access to the database and its side files; readers also write to a log's shared memory."""
    database, *_ = arguments
    files = [Path(f"{database}{ending}") for ending in ("", "-wal", "-journal", "-shm")]
    return Access(files, [Path(os.environ["SQLITE_TMPDIR"]), files[-1]])


if __name__ == "__main__":
    run_under_limits(_work, access=_access)
