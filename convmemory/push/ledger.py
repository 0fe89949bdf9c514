"""The record of files sent to each server, and of whose sending its user agreed to: nothing is sent twice or unasked.

A file is known by the digest of its bytes; while its size and modification time are unchanged, the digest is not
recomputed.
"""

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType

_TABLES = """
CREATE TABLE IF NOT EXISTS sent (server TEXT, digest TEXT, outcome TEXT, at REAL, PRIMARY KEY (server, digest));
CREATE TABLE IF NOT EXISTS digests (path TEXT PRIMARY KEY, size INTEGER, modified_ns INTEGER, digest TEXT);
CREATE TABLE IF NOT EXISTS agreed (server TEXT, agent TEXT, at REAL, PRIMARY KEY (server, agent));
"""


class Ledger:
    """The database at `path`, created if missing and readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=True)
        self._connection = sqlite3.connect(path)
        self._connection.executescript(_TABLES)

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def known_digest(self, path: str, *, size: int, modified_ns: int) -> str:
        """Return the digest of a file that has not changed since it was recorded; else an empty string."""
        sql = "SELECT digest FROM digests WHERE path = ? AND size = ? AND modified_ns = ?"
        with closing(self._connection.execute(sql, (path, size, modified_ns))) as cursor:
            row = cursor.fetchone()
        return str(row[0]) if row else ""

    def record_digest(self, path: str, *, size: int, modified_ns: int, digest: str) -> None:
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?)", (path, size, modified_ns, digest)
            )

    def was_sent(self, server: str, digest: str) -> bool:
        sql = "SELECT 1 FROM sent WHERE server = ? AND digest = ?"
        with closing(self._connection.execute(sql, (server, digest))) as cursor:
            return cursor.fetchone() is not None

    def record_sent(self, server: str, digests: Iterable[str], *, outcome: str) -> None:
        """Record files that the server has imported, or has refused for good."""
        rows = [(server, digest, outcome, time.time()) for digest in digests]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?)", rows)

    def agreed(self, server: str) -> set[str]:
        """Return the agents whose sessions the user agreed to send to the server."""
        with closing(self._connection.execute("SELECT agent FROM agreed WHERE server = ?", (server,))) as cursor:
            return {str(row[0]) for row in cursor}

    def record_agreement(self, server: str, agents: Iterable[str]) -> None:
        rows = [(server, agent, time.time()) for agent in agents]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO agreed VALUES (?, ?, ?)", rows)
